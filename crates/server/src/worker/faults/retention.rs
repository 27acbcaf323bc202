//! The caches keep an open root and a file whose check fails for lack of descriptors or memory.

use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use rustix::io::Errno;
use site::model::{Action, Site};
use site::route::RouteId;
use taipan_http::target::SafePath;

use super::TIMEOUT;
use super::fixture::UNCHANGED;
use crate::files::roots::OpenRoots;
use crate::files::roots::Roots;
use crate::files::{Entry, Files, Probe};
use crate::services::Services;
use crate::sys::faulty::plan::{self, Call, Case, Fault, Which};

const SHORTAGES: [Errno; 3] = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];

pub fn all(site: &Site) {
    let Action::Files { root, .. } = &site.hosts.at(0).routes.get(RouteId::DEFAULT).action else {
        panic!("the site has files");
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    runtime.unwrap().block_on(async {
        let (services, _closing) = Services::new(site.clone(), None);
        let files = Files::new(services, OpenRoots::of(site));
        for call in [Call::Open, Call::Fstat] {
            for errno in SHORTAGES.into_iter().chain([Errno::IO, Errno::INTR]) {
                let case = Case { call: Some(call), which: Which::Nth(1), fault: Fault::Errno(errno) };
                a_root(&files, root, case).await;
            }
        }
        for errno in SHORTAGES {
            let case = Case { call: None, which: Which::First(100), fault: Fault::Errno(errno) };
            a_file(&files, Case { call: Some(Call::Openat2), ..case }).await;
        }
    });
}

async fn a_root(files: &Rc<Files>, root: &Path, case: Case) {
    // Late enough that the root is opened again.
    let later = files.services.clock.read() + 2 * UNCHANGED.as_secs() as i64;
    plan::arm(Some(case));
    assert!(Roots::get(files, root, later).is_ok(), "{case}: while it is opened again");
    let until = Instant::now() + TIMEOUT;
    loop {
        tokio::task::yield_now().await;
        if plan::counts()[Call::Open as usize] > 0 && files.services.disk.waiting() == 0 {
            break;
        }
        assert!(Instant::now() < until, "{case}: it is opened again");
    }
    assert_eq!(plan::disarm(), 1, "{case}: the fault occurred");
    assert!(Roots::get(files, root, files.services.clock.now()).is_ok(), "{case}: afterwards");
}

async fn a_file(files: &Rc<Files>, case: Case) {
    let before = find(files).await.expect("the file exists");
    plan::arm(Some(case));
    let after = find(files).await;
    assert!(plan::disarm() > 0, "{case}: the fault occurred");
    assert!(after.is_some_and(|after| Rc::ptr_eq(&after, &before)), "{case}");
}

/// Looks up the file in the cache.
async fn find(files: &Rc<Files>) -> Option<Rc<Entry>> {
    let path = SafePath::parse("/small").unwrap();
    let planned = site::plan::plan(files.services.site.hosts.at(0), path.clone(), None).files()?;
    match files.probe(0.into(), &path, &planned, files.services.clock.read()) {
        Probe::Hit(entry) => Some(entry),
        Probe::WouldWait(lookup) => lookup.find().await.ok(),
        Probe::Failed(_) => None,
    }
}
