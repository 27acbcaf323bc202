//! Sites of several names that have a block for each name, as those with one certificate for `*.example.org`: each of
//! these blocks becomes a site of its own.

use crate::tree::Directive;

/// What makes a site of a name. A rejection or a redirect of one is a rule of access.
const WITH_NAMES: [&str; 3] = ["handle", "reverse_proxy", "route"];

/// What has no effect beside a block of the same name that is for the host.
const REPLACED: [&str; 2] = ["handle", "reverse_proxy"];

/// A matcher that is for names of hosts and nothing else.
struct Named<'d> {
    /// With its `@`.
    matcher: &'d str,
    names: Vec<&'d str>,
}

/// The sites, with those of the blocks behind the ones that they stand in.
pub fn apart(sites: Vec<Directive>) -> Vec<Directive> {
    sites.into_iter().flat_map(split).collect()
}

fn split(site: Directive) -> Vec<Directive> {
    let is_used = |one: &Named| {
        let is_site = |child: &Directive| WITH_NAMES.contains(&child.name.as_str());
        site.children().iter().any(|child| is_site(child) && child.argument(0) == one.matcher)
    };
    let named: Vec<Named> = site.children().iter().filter_map(Named::of).filter(is_used).collect();
    let addresses: Option<Vec<Vec<String>>> =
        named.iter().map(|one| one.names.iter().map(|name| address(&site, name)).collect()).collect();
    let is_known = |child: &Directive| !is_by(child, &named) || WITH_NAMES.contains(&child.name.as_str());
    let (Some(addresses), true) = (addresses, site.children().iter().all(is_known)) else {
        return vec![site];
    };
    if named.is_empty() {
        return vec![site];
    }
    let of_names =
        named.iter().zip(addresses).map(|(own, addresses)| of_names(&site, own, addresses, &named));
    std::iter::once(rest(&site, &named)).chain(of_names).collect()
}

impl<'d> Named<'d> {
    /// `@name host a b`, or in a block.
    fn of(child: &'d Directive) -> Option<Named<'d>> {
        let matcher = child.name.strip_prefix('@').map(|_| child.name.as_str())?;
        let names: Vec<&str> = match (child.arguments.as_slice(), child.children()) {
            ([kind, names @ ..], []) if kind == "host" => names.iter().map(String::as_str).collect(),
            ([], [only]) if only.name == "host" && only.block.is_none() => {
                only.arguments.iter().map(String::as_str).collect()
            }
            _ => return None,
        };
        let is_name = |name: &&str| !name.is_empty() && !name.contains(['*', '{', ':', '/']);
        (!names.is_empty() && names.iter().all(is_name)).then_some(Named { matcher, names })
    }
}

/// Whether a directive is for the names of one of these matchers.
fn is_by(child: &Directive, named: &[Named]) -> bool {
    !child.name.starts_with('@') && named.iter().any(|one| child.argument(0) == one.matcher)
}

/// The address of a name, with the scheme and the port of its site. `None`: the site has no such name.
fn address(site: &Directive, name: &str) -> Option<String> {
    let all = std::iter::once(&site.name).chain(&site.arguments).flat_map(|text| text.split(','));
    all.map(str::trim).filter(|text| !text.is_empty()).find_map(|address| {
        let (scheme, rest) = match address.split_once("://") {
            Some((scheme, rest)) => (format!("{scheme}://"), rest),
            None => (String::new(), address),
        };
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) => (host, format!(":{port}")),
            None => (rest, String::new()),
        };
        let is_within = match host.strip_prefix('*') {
            Some(end) => end.is_empty() || name.strip_suffix(end).is_some_and(|label| !label.contains('.')),
            None => host.is_empty(),
        };
        is_within.then(|| format!("{scheme}{name}{port}"))
    })
}

/// The site without what is for names.
fn rest(site: &Directive, named: &[Named]) -> Directive {
    let is_matcher = |child: &Directive| named.iter().any(|one| child.name == one.matcher);
    let mut block: Vec<Directive> =
        site.children().iter().filter(|child| !is_by(child, named) && !is_matcher(child)).cloned().collect();
    let responds = |child: &Directive| {
        WITH_NAMES.contains(&child.name.as_str())
            || ["file_server", "php_fastcgi", "abort", "error", "respond", "redir"]
                .contains(&child.name.as_str())
    };
    if !block.iter().any(responds) {
        block.push(Directive {
            name: "error".to_owned(),
            arguments: vec!["404".to_owned()],
            block: None,
            place: site.place.clone(),
        });
    }
    Directive { block: Some(block), ..site.clone() }
}

/// The site of these names.
fn of_names(site: &Directive, own: &Named, addresses: Vec<String>, named: &[Named]) -> Directive {
    let is_own = |child: &Directive| child.argument(0) == own.matcher;
    let is_replaced = |child: &Directive| {
        REPLACED.contains(&child.name.as_str())
            && site.children().iter().any(|other| other.name == child.name && is_own(other))
            && (child.arguments.is_empty() || !child.argument(0).starts_with(['/', '@', '*']))
    };
    let is_matcher = |child: &Directive| named.iter().any(|one| child.name == one.matcher);
    let kept = site
        .children()
        .iter()
        .filter(|child| !is_matcher(child) && (is_own(child) || !is_by(child, named) && !is_replaced(child)));
    let block = kept.map(|child| match is_own(child) {
        true => Directive { arguments: child.arguments[1..].to_vec(), ..child.clone() },
        false => child.clone(),
    });
    let mut addresses = addresses.into_iter();
    Directive {
        name: addresses.next().unwrap_or_default(),
        arguments: addresses.collect(),
        block: Some(block.collect()),
        place: site.place.clone(),
    }
}
