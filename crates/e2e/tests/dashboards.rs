//! What `contrib` has for Grafana and Prometheus names only what a running server exports: each metric, each label, and
//! each value of a label that is spelled out. Prometheus itself reads every expression.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use e2e::upstream::upstream;
use e2e::{Server, Site, TIMEOUT, output_of, tool, wait_until};
use serde_json::Value;

fn contrib(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(contrib(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A server with everything that has metrics of its own.
fn server() -> Server {
    let backend = upstream(|mut stream, _| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
    });
    let backend = backend.trim_start_matches("http://");
    let site = Site::new().certificate().file("a.txt", "a");
    let files = site.home().join("files");
    fs::create_dir(&files).expect("it is our folder");
    let config = format!(
        "workers = 2\nlisten = [\"127.0.0.2:0\", \"127.0.0.1:0 tls\"]\nnames = [\"example.org\", \"www.example.org\", \
         \"localhost\"]\ncertificate = \"certificate.pem\"\ncertificate_key = \"key.pem\"\n\
         [statistics]\nhosts = 5\nroutes = 5\n[cache_files]\nfolder = \"{}\"\nmin_free = 0\n\
         [[route]]\npath = \"/sorry\"\nreturn = 503\n\
         [[route]]\npath = \"/app/\"\napplication = \"app\"\nresponse_cache = true\n\
         [[application]]\nname = \"app\"\nprotocol = \"http\"\naddress = [\"{backend}\"]\n\
         [application.breaker]\nfailure_rate = 50\n",
        files.display()
    );
    let server = site.config(&config).start();
    for (path, status) in [("/a.txt", 200), ("/missing", 404), ("/sorry", 503), ("/app/x", 200)] {
        assert_eq!(server.request(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).status, status);
    }
    server
}

/// For each metric the values of each of its labels.
type Exported = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn exported(server: &Server) -> Exported {
    let output = server.run_command(&["metrics", "--prometheus"]);
    let mut exported = Exported::new();
    for line in String::from_utf8_lossy(&output.stdout).lines().filter(|line| !line.starts_with('#')) {
        let (name, _) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let (name, labels) = name.split_once('{').unwrap_or((name, ""));
        let known = exported.entry(name.to_owned()).or_default();
        for (label, _, value) in matchers(labels) {
            known.entry(label).or_default().insert(value);
        }
    }
    exported
}

/// Labels, operators and values, up to the brace that closes them.
fn matchers(text: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((label, behind)) = rest.split_once('"') {
        if label.contains('}') {
            break;
        }
        let (value, behind) = behind.split_once('"').unwrap_or_else(|| panic!("{text}"));
        let name = label.trim_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let operator: String = label.chars().filter(|c| "=!~".contains(*c)).collect();
        found.push((name.to_owned(), operator, value.to_owned()));
        rest = behind;
    }
    found
}

/// What Prometheus adds to each metric, and what an expression computes from.
const ADDED: [&str; 3] = ["job", "instance", "le"];

/// What is wrong with an expression.
fn mistakes(expression: &str, legend: &str, exported: &Exported) -> Vec<String> {
    let mut mistakes = Vec::new();
    let mut labels: BTreeSet<&str> = ADDED.into();
    for (at, _) in expression.match_indices("taipan_") {
        let rest = &expression[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        let Some(known) = exported.get(name) else {
            mistakes.push(format!("no metric {name}: {expression}"));
            continue;
        };
        labels.extend(known.keys().map(String::as_str));
        for (label, operator, value) in behind.strip_prefix('{').map(matchers).unwrap_or_default() {
            if ADDED.contains(&label.as_str()) {
                continue;
            }
            match known.get(&label) {
                None => mistakes.push(format!("{name} has no label {label}: {expression}")),
                Some(values) if operator == "=" && !values.contains(&value) => {
                    mistakes.push(format!("{name} has no {label} {value}, but {values:?}: {expression}"));
                }
                Some(_) => {}
            }
        }
    }
    let groups = expression.split("by (").skip(1).filter_map(|rest| rest.split_once(')'));
    let shown = legend.split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
    for (names, _) in groups.chain(shown) {
        for label in names.split(',').map(str::trim) {
            let label = label.trim_start_matches("$labels.");
            if !labels.contains(label) && !label.starts_with('$') {
                mistakes.push(format!("no label {label}: {expression} {legend}"));
            }
        }
    }
    mistakes
}

/// The panels of the dashboard, with those within rows.
fn panels(dashboard: &Value) -> Vec<Value> {
    let panels = dashboard["panels"].as_array().cloned().unwrap_or_default();
    let within = |panel: &Value| panel["panels"].as_array().cloned().unwrap_or_default();
    panels.iter().flat_map(|panel| [vec![panel.clone()], within(panel)].concat()).collect()
}

#[test]
fn the_dashboard_and_the_alerts_name_only_what_a_server_exports() {
    let server = server();
    // The pool tells the workers of its endpoints and breakers, and the index of files is made in the background.
    let names = ["taipan_endpoint_up", "taipan_breaker_open", "taipan_cache_file_bytes"];
    _ = wait_until(TIMEOUT, || names.iter().all(|name| exported(&server).contains_key(*name)));
    let mut exported = exported(&server);
    // It is there only as long as a helper works.
    let labels = ["device", "state"].map(|label| (label.to_owned(), BTreeSet::new()));
    exported.entry("taipan_helper_operations".to_owned()).or_insert(labels.into());
    let dashboard: Value = serde_json::from_str(&read("grafana/taipan.json")).expect("it is JSON");
    let mut found = Vec::new();
    let (mut ids, mut count) = (BTreeSet::new(), 0);
    let mut rules = String::from("groups:\n- name: dashboard\n  rules:\n");
    for panel in panels(&dashboard) {
        assert!(ids.insert(panel["id"].as_u64()), "two panels have the id {}", panel["id"]);
        for target in panel["targets"].as_array().into_iter().flatten() {
            let text = |key: &str| target[key].as_str().unwrap_or_default().to_owned();
            found.extend(mistakes(&text("expr"), &text("legendFormat"), &exported));
            let expression = text("expr").replace("$__rate_interval", "5m");
            rules.push_str(&format!("  - record: panel:number_{count}\n    expr: '{expression}'\n"));
            count += 1;
        }
    }
    assert!(count > 40, "{count}");
    for alert in read("prometheus/taipan.yml").split("- alert: ").skip(1) {
        let expression = alert.split("annotations:").next().unwrap_or_default();
        found.extend(mistakes(expression, "", &exported));
    }
    assert_eq!(found, Vec::<String>::new());
    let file = server.home().join("rules.yml");
    fs::write(&file, rules).expect("it is our folder");
    let output = output_of(tool("promtool").args(["check", "rules"]).arg(&file));
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn promtool_accepts_the_alerts_and_they_fire_when_they_should() {
    for arguments in [["check", "rules", "taipan.yml"], ["test", "rules", "taipan.test.yml"]] {
        let mut promtool = tool("promtool");
        let output = output_of(promtool.args(arguments).current_dir(contrib("prometheus")));
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}

#[test]
fn a_mistake_in_a_dashboard_is_found() {
    let values = [("class".to_owned(), BTreeSet::from(["5xx".to_owned()]))];
    let exported = Exported::from([("taipan_a_total".to_owned(), values.into())]);
    for (expression, legend, expected) in [
        ("sum by (class) (rate(taipan_a_total{job=~\"$job\",class=\"5xx\"}[5m]))", "{{class}}", 0),
        ("taipan_b_total", "", 1),
        ("taipan_a_total{code=\"5xx\"}", "", 1),
        ("taipan_a_total{class=\"6xx\"}", "", 1),
        ("taipan_a_total{class=~\"6..\"}", "", 0),
        ("sum by (code) (taipan_a_total)", "", 1),
        ("taipan_a_total", "{{code}} {{instance}}", 1),
    ] {
        assert_eq!(mistakes(expression, legend, &exported).len(), expected, "{expression} {legend}");
    }
}
