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

impl Names {
    pub fn of(upstream: &Upstream) -> Names {
        Names {
            application: upstream.name.as_str().into(),
            endpoints: (0..).map_while(|index| Some(upstream.endpoint_name(index)?.into())).collect(),
            addresses: upstream.addresses().iter().map(|address| address.to_string().into()).collect(),
        }
    }

    /// An endpoint in messages. `None`: the name of the application says enough.
    pub fn endpoint(&self, origin: EndpointOrigin) -> Option<Rc<str>> {
        let name = self.endpoints.get(origin.index)?;
        Some(match origin.resolved {
            Some(address) => format!("{name} ({})", address.ip()).into(),
            None => name.clone(),
        })
    }

    /// An endpoint in the access log: its address, or the application that has the process.
    pub fn address(&self, origin: EndpointOrigin) -> Rc<str> {
        match origin.resolved {
            Some(address) => address.to_string().into(),
            None => self.addresses.get(origin.index).unwrap_or(&self.application).clone(),
        }
    }
}
