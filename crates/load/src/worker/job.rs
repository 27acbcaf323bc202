//! The job of one worker: the flags of its controller, and complete requests, because the worker does not have
//! the controller's files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::flags::{self, Command, RunArguments, UsageError};
use crate::plan::build::{Built, build_from};
use crate::plan::options::{Body, Options};
use crate::plan::{Check, Order, Pace, Plan, Reference, Trust};
use crate::urls::{Entry, Environment};

/// One worker's part of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub flags: Vec<String>,
    pub entries: Vec<Entry>,
}

/// A worker reads no files for a controller.
struct NoFiles;

impl Environment for NoFiles {
    fn read(&self, _: &std::path::Path) -> std::io::Result<Vec<u8>> {
        Err(std::io::ErrorKind::PermissionDenied.into())
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }
}

/// Divides requests, connections and rate among the workers. Each has a seed of its own.
///
/// Errors: what cannot be divided.
pub fn split(arguments: &RunArguments, built: &Built) -> Result<Vec<Job>, String> {
    let (plan, options, count) = (&built.plan, &arguments.options, arguments.workers.len());
    if matches!(plan.pace, Pace::Replay(_)) {
        return Err("a replay runs on one machine: leave --workers out".to_owned());
    }
    if plan.connections < count || plan.stop.requests.is_some_and(|requests| requests < count as u64) {
        return Err(format!("{count} workers need at least {count} connections and {count} requests"));
    }
    let entries: Vec<Entry> = plan
        .requests
        .iter()
        .map(|request| Entry {
            method: Some(request.method.clone()),
            body: Some(request.body.clone()),
            content_type: field(&request.fields, "content-type"),
            weight: request.weight,
            ..Entry::get(request.url.clone())
        })
        .collect();
    let entries = match &plan.order {
        Order::Random => entries,
        Order::InOrder(steps) => {
            steps.iter().filter_map(|&step| entries.get(step as usize).cloned()).collect()
        }
    };
    let part =
        |whole: u64, index: usize| whole / count as u64 + u64::from((index as u64) < whole % count as u64);
    Ok((0..count)
        .map(|index| {
            let mut flags = arguments.forwarded.clone();
            flags.push(format!("--connections={}", part(plan.connections as u64, index)));
            flags.push(format!("--seed={}", options.seed.wrapping_add(index as u64 * 1000)));
            if let Some(requests) = options.requests {
                flags.push(format!("--requests={}", part(requests, index)));
            }
            if let Some(rate) = options.rate {
                flags.push(format!("--rate={}", rate / count as f64));
            }
            Job { flags, entries: entries.clone() }
        })
        .collect())
}

impl Job {
    /// For the worker.
    pub fn to_json(&self) -> Vec<u8> {
        let entries: Vec<Value> = self
            .entries
            .iter()
            .map(|entry| {
                json!({
                    "url": entry.url,
                    "method": entry.method,
                    "body": entry.body.as_ref().map(|body| STANDARD.encode(body)),
                    "type": entry.content_type,
                    "weight": entry.weight,
                })
            })
            .collect();
        json!({ "flags": self.flags, "entries": entries }).to_string().into_bytes()
    }

    /// Errors: the text is no job, or of another version.
    pub fn from_json(text: &[u8]) -> Result<Job, String> {
        let value: Value = serde_json::from_slice(text).map_err(|error| format!("not a job: {error}"))?;
        let wrong = || "not a job of this version".to_owned();
        let flags = value["flags"].as_array().ok_or_else(wrong)?;
        let entries = value["entries"].as_array().ok_or_else(wrong)?;
        let flags: Option<Vec<String>> = flags.iter().map(|flag| flag.as_str().map(str::to_owned)).collect();
        let entries: Option<Vec<Entry>> = entries.iter().map(entry).collect();
        Ok(Job { flags: flags.ok_or_else(wrong)?, entries: entries.ok_or_else(wrong)? })
    }

    /// Errors: unknown flags, and flags that name a file on the worker.
    pub fn plan(&self) -> Result<Plan, String> {
        let words = self.flags.iter().map(|flag| flag.into()).chain(["http://in.the.entries/".into()]);
        let options = match flags::parse(words) {
            Ok(Command::Run(arguments)) if arguments.workers.is_empty() => arguments.options,
            Ok(_) => return Err("the flags are not those of a run".to_owned()),
            Err(UsageError(why)) => return Err(why),
        };
        if names_files(&options) {
            return Err("a worker reads no files for a controller".to_owned());
        }
        build_from(&options, &self.entries, &NoFiles)
    }
}

fn names_files(options: &Options) -> bool {
    !options.lists.is_empty()
        || options.log.is_some()
        || matches!(options.body, Some(Body::File(_)))
        || matches!(options.check, Check::Checksum(Reference::Manifest(_) | Reference::Folder(_)))
        || matches!(options.trust, Trust::File(_))
}

fn field(fields: &[(String, String)], wanted: &str) -> Option<String> {
    fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.clone())
}

fn entry(value: &Value) -> Option<Entry> {
    let body = match value["body"].as_str() {
        Some(text) => Some(STANDARD.decode(text).ok()?),
        None => None,
    };
    Some(Entry {
        url: value["url"].as_str()?.to_owned(),
        method: value["method"].as_str().map(str::to_owned),
        body,
        content_type: value["type"].as_str().map(str::to_owned),
        weight: u32::try_from(value["weight"].as_u64()?).ok()?,
        at: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::build::build;
    use crate::urls::System;

    fn jobs_of(line: &str) -> Result<Vec<Job>, String> {
        let words = line.split_whitespace().map(Into::into);
        let Ok(Command::Run(arguments)) = flags::parse(words) else { panic!("{line}") };
        split(&arguments, &build(&arguments.options, &System).unwrap())
    }

    #[test]
    fn the_jobs_add_up_to_the_whole_plan() {
        let jobs =
            jobs_of("--workers a:1,b:1 -c 5 -n 101 --rate 9 -m PUT -d x http://127.0.0.1:1/{1..3}").unwrap();
        let plans: Vec<Plan> = jobs.iter().map(|job| job.plan().unwrap()).collect();
        assert_eq!(plans.iter().map(|plan| plan.connections).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(plans.iter().filter_map(|plan| plan.stop.requests).collect::<Vec<_>>(), [51, 50]);
        assert!(plans.iter().all(|plan| matches!(plan.pace, Pace::Open { per_second: 4.5, .. })));
        assert_ne!(plans[0].seed, plans[1].seed);
        assert_eq!(plans[1].requests.len(), 3);
        assert!(plans[1].requests.iter().all(|request| request.method == "PUT" && request.body == b"x"));
    }

    #[test]
    fn reads_the_job_that_was_sent() {
        for job in jobs_of("--workers a:1 --order sequence -H a:b http://127.0.0.1:1/{1..3}").unwrap() {
            assert_eq!(Job::from_json(&job.to_json()), Ok(job));
        }
        for text in ["", "[]", "{\"flags\":[1],\"entries\":[]}", "{\"flags\":[],\"entries\":[{}]}"] {
            assert!(Job::from_json(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn rejects_flags_that_read_files_or_need_workers() {
        for flag in [
            "--urls=/etc/passwd",
            "--log=/x",
            "--body-file=/x",
            "--manifest=/x",
            "--folder=/",
            "--ca=/x",
            "--workers=a:1",
            "--merge",
            "--nonsense",
        ] {
            let entries = vec![Entry::get("http://127.0.0.1:1/".to_owned())];
            let job = Job { flags: vec![flag.to_owned()], entries };
            assert!(job.plan().is_err(), "{flag}");
        }
    }

    #[test]
    fn rejects_fewer_connections_or_requests_than_workers() {
        assert!(jobs_of("--workers a:1,b:1 -c 1 http://127.0.0.1:1/").is_err());
        assert!(jobs_of("--workers a:1,b:1 -n 1 http://127.0.0.1:1/").is_err());
    }
}
