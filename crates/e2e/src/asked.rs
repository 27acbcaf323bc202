//! What a running program is asked through its control socket: by the program itself, as a user would.

use std::process::Output;

use serde_json::Value;

use crate::server::Server;
use crate::{command, ended};

impl Server {
    /// `taipan WORD -c site.toml`, for a server that was started from a site.
    pub fn asked(&self, words: &[&str]) -> Output {
        let mut asking = command();
        asking.args(words).arg("-c").arg(self.home().join("site.toml"));
        ended(&mut asking)
    }

    /// `taipan reload`. Panics if it is refused.
    pub fn reload(&self) {
        let output = self.asked(&["reload"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}\n{}", self.stderr());
    }

    /// `taipan reload`, which is refused: what it says. Panics if it is not.
    pub fn refused_reload(&self) -> String {
        let output = self.asked(&["reload"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "it is refused: {said}");
        said
    }

    /// `taipan stats --json`
    pub fn stats(&self) -> Value {
        let output = self.asked(&["stats", "--json"]);
        let said = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&said).unwrap_or_else(|e| {
            panic!("{e}: {said:?} {}\n{}", String::from_utf8_lossy(&output.stderr), self.stderr())
        })
    }

    /// One sum over all workers.
    pub fn count(&self, key: &str) -> u64 {
        let stats = self.stats();
        stats["all"][key].as_u64().unwrap_or_else(|| panic!("no {key} in {stats}"))
    }
}
