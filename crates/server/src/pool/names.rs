//! What messages and the access log call an application and its endpoints.

use std::rc::Rc;

use site::upstream::Upstream;

use super::message::EndpointOrigin;

pub struct Names {
    pub application: Rc<str>,
    /// Of its addresses, in messages. Empty: it has only one address, which is no name, or none.
    endpoints: Vec<Rc<str>>,
    /// In the access log.
    addresses: Vec<Rc<str>>,
}

/// What an endpoint is called.
#[derive(Clone)]
pub struct EndpointNames {
    /// In messages. `None`: the name of the application says enough.
    pub in_messages: Option<Rc<str>>,
    /// In the access log: its address, or the application that has the process.
    pub in_log: Rc<str>,
}

impl Names {
    pub fn of(upstream: &Upstream) -> Names {
        Names {
            application: upstream.name.as_str().into(),
            endpoints: (0..).map_while(|index| Some(upstream.endpoint_name(index)?.into())).collect(),
            addresses: upstream.addresses().iter().map(|address| address.to_string().into()).collect(),
        }
    }

    pub fn endpoint(&self, origin: EndpointOrigin) -> EndpointNames {
        let name = self.endpoints.get(origin.index);
        match origin.resolved {
            Some(address) => EndpointNames {
                in_messages: name.map(|name| format!("{name} ({})", address.ip()).into()),
                in_log: address.to_string().into(),
            },
            None => EndpointNames {
                in_messages: name.cloned(),
                in_log: self.addresses.get(origin.index).unwrap_or(&self.application).clone(),
            },
        }
    }
}
