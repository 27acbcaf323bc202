//! The trailers of a request: which of them the upstream gets.

use std::rc::Rc;

use site::authorizer::is_same_name;
use site::forwarding::Forwarding;
use site::model::HeaderRule;
use taipan_http::fields::is_plain_name;
use taipan_http::head::Head;
use taipan_http::trailers::{Trailers, announced};

/// Which fields behind the body of a request are sent on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestTrailers {
    /// Names that this server or the route sets. `None`: no field is sent on.
    withheld: Option<Rc<[String]>>,
    /// The names that the client has announced.
    pub announced: Option<Rc<str>>,
}

impl RequestTrailers {
    pub fn of(head: &Head<'_>, forwarding: &Forwarding, asserted: &[String]) -> RequestTrailers {
        if !head.framing.has_body() || !forwarding.trailers.pass_in_requests() {
            return RequestTrailers::default();
        }
        let of_route = forwarding.fields.iter().map(HeaderRule::name);
        let withheld: Rc<[String]> =
            of_route.chain(asserted.iter().map(String::as_str)).map(str::to_owned).collect();
        let is_withheld =
            |name: &[u8]| !is_plain_name(name) || withheld.iter().any(|own| is_same_name(name, own));
        let announced = announced(head.values("trailer"), is_withheld).map(Rc::from);
        RequestTrailers { withheld: Some(withheld), announced }
    }

    /// Those of `trailers` that are sent on.
    pub fn passed(&self, mut trailers: Trailers) -> Trailers {
        let Some(withheld) = &self.withheld else { return Trailers::new() };
        trailers.retain(|(name, _)| {
            let name = name.as_bytes();
            is_plain_name(name) && !withheld.iter().any(|own| is_same_name(name, own))
        });
        trailers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_have_names_that_no_program_takes_for_others() {
        let withheld: Option<Rc<[String]>> = Some(Rc::from(vec!["remote-user".to_owned()]));
        let own = RequestTrailers { withheld, announced: None };
        let names = ["x-sum", "Remote-User", "remote_user", "remote.user", "remote!user", "sum2"];
        let sent: Trailers = names.iter().map(|name| ((*name).to_owned(), Vec::new())).collect();
        let passed: Vec<String> = own.passed(sent).into_iter().map(|(name, _)| name).collect();
        assert_eq!(passed, ["x-sum", "sum2"]);
    }
}
