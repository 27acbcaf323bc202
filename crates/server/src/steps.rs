//! The steps from a request to its response, in the words of `taipan explain` and `taipan watch`: a line for each, with
//! the step in its first columns. Only what the configuration decides; opens no file.

use site::access::{self, Action, Facts};
use site::applying::{each_applying, named_by_rules};
use site::authentication::Demand;
use site::host::name_of;
use site::limit::LimitId;
use site::model::{Host, Route, Site};
use site::plan::{Plan, PlannedAction};
use taipan_http::head::Head;
use taipan_http::target::SafePath;

use crate::peer::Peer;

/// Columns of the step.
pub const WIDTH: usize = 10;

/// `index` is that of the host which has been found for the authority.
pub fn host(site: &Site, index: usize, authority: &[u8]) -> Vec<String> {
    let names = site.hosts.at(index).names.join(", ");
    let name = if names.is_empty() { "the default host".to_owned() } else { names };
    let mut lines = vec![format!("host      {name}")];
    if site.hosts.len() > 1 && site.hosts.names().find(name_of(authority)).is_none() {
        lines.push("          because no host has this name".to_owned());
    }
    lines
}

/// The users that are asked for.
fn passwords(host: &Host, path: &SafePath<'_>, facts: Facts<'_>) -> Vec<String> {
    let route = |path: &SafePath<'_>| host.routes.get(host.routes.find(path));
    let others = access::other_names(path, &route(path).files.alternates);
    let mut lines = Vec::new();
    for name in std::iter::once(path).chain(&others) {
        for (own, verdict) in access::demands(route(name), name, facts) {
            let users = match own.demand(verdict) {
                Demand::User => "a user of its files",
                Demand::FolderUser => "a user of the folder's file, if there is one",
                Demand::Nothing | Demand::Denied => continue,
            };
            let line = format!("password  {users}, for the realm \"{}\"", own.realm);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

/// The rule of access that decides.
pub fn access(host: &Host, path: &SafePath<'_>, facts: Facts<'_>, client: Peer) -> Vec<String> {
    let verdict = access::check(host, path, facts);
    let mut lines = passwords(host, path, facts);
    let (what, rule) = match verdict {
        access::Verdict::Allow(None) => {
            lines.push(format!("access    {client} is allowed: no rule matches"));
            return lines;
        }
        access::Verdict::Allow(Some(rule)) => ("is allowed".to_owned(), rule),
        access::Verdict::Authenticate(rule) => ("must authenticate".to_owned(), rule),
        access::Verdict::Deny(status, rule) => match &rule.action {
            Action::Redirect(redirect) => (
                format!("is redirected with {status} to {}", redirect.to.location_for(host, facts.head)),
                rule,
            ),
            _ => (format!("is denied with {status}"), rule),
        },
    };
    lines.push(format!("access    {client} {what}, by the rule in {}", rule.place));
    lines
}

/// The limits of speed and of requests that apply, and those that rules of access name.
pub fn limits(site: &Site, host: &Host, path: &SafePath<'_>, facts: Facts<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |id: LimitId| {
        let limit = site.traffic_limits.get(usize::from(id.0));
        lines.extend(limit.map(|limit| format!("limit     {limit}")));
    };
    let route = host.routes.get(host.routes.find(path));
    each_applying(&site.traffic_limits, host, route, path, &mut add);
    named_by_rules(&site.traffic_limits, host, path, facts).into_iter().for_each(add);
    lines
}

/// The route, and what it does.
pub fn route(site: &Site, head: &Head<'_>, route: &Route, action: &PlannedAction<'_, '_>) -> String {
    let name = route.name();
    match action {
        PlannedAction::Upstream(planned) => match site.upstreams.get(planned.upstream) {
            Some(upstream) if upstream.is_of_route() => format!("route     {name}: a reverse proxy"),
            _ => format!("route     {name}: an application"),
        },
        PlannedAction::Redirect(redirect) => {
            let location = redirect.location(head.target.query(), head.authority, head.scheme);
            format!("route     {name}: {}, to {location}", redirect.status)
        }
        PlannedAction::Monitor(monitor) => format!("route     {name}: {}", monitor.name()),
        PlannedAction::Publish(_) => format!("route     {name}: a text of the configuration"),
        PlannedAction::Status(status, cause) => format!("route     {name}: {status} ({cause})"),
        PlannedAction::Files(planned) => format!("route     {name}: files beneath {}", planned.root),
    }
}

/// The file, or the application, that a plan leads to, as far as it is known without a look at the disk.
pub fn target(site: &Site, plan: &Plan<'_, '_>) -> Option<String> {
    match &plan.action {
        PlannedAction::Files(planned) => {
            let file = planned.below().beneath(planned.root.path()?);
            Some(format!("file      {}", file.display()))
        }
        PlannedAction::Upstream(planned) => {
            site.upstreams.get(planned.upstream).map(|application| format!("run by    {application}"))
        }
        _ => None,
    }
}
