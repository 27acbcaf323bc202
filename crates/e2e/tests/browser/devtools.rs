//! A headless Chromium that the tests drive through the DevTools protocol.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

use e2e::{Folder, TIMEOUT, tool};
use serde_json::{Value, json};

/// A headless Chromium with one page.
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    sent: u64,
    /// Events that came while the test waited for another message.
    events: Vec<Value>,
    /// The session of the page.
    page: Value,
    _profile: Folder,
}

impl Browser {
    pub fn start() -> Browser {
        Browser::start_with(Folder::new(), &[])
    }

    pub fn start_with(profile: Folder, more: &[String]) -> Browser {
        let chromium = tool("chromium").get_program().to_owned();
        // The browser uses the descriptors 3 and 4, which std cannot pass on; a shell can.
        let mut command = tool("sh");
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"]).arg(chromium);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        command.args(["--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).args(more);
        command
            .env("HOME", profile.path())
            .stdin(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let commands = child.stdin.take().unwrap();
        let responses = child.stdout.take().unwrap();
        let (send, messages) = mpsc::channel();
        thread::spawn(move || {
            // Each message ends with a NUL.
            for message in BufReader::new(responses).split(0) {
                let Ok(message) = message.map(|bytes| serde_json::from_slice(&bytes).unwrap_or(Value::Null))
                else {
                    return;
                };
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Browser {
            child,
            commands,
            messages,
            session: None,
            sent: 0,
            events: Vec::new(),
            page: Value::Null,
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, json!({}));
        }
        browser.call("Page.setLifecycleEventsEnabled", json!({ "enabled": true }));
        let frames = browser.call("Page.getFrameTree", json!({}));
        browser.page = frames["frameTree"]["frame"]["loaderId"].clone();
        browser
    }

    /// Sends a command, whose number it returns.
    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        self.sent += 1;
        let id = self.sent;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.commands
            .write_all(message.to_string().as_bytes())
            .and_then(|()| self.commands.write_all(&[0]))
            .expect("the browser runs");
        id
    }

    /// Sends a command and waits for its result.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let response = self.wait_for(&format!("the response to {method}"), |message| message["id"] == id);
        assert!(response["error"].is_null(), "{method}: {response}");
        response["result"].clone()
    }

    fn wait_for(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + TIMEOUT * 6;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let message =
                self.messages.recv_timeout(left).unwrap_or_else(|_| panic!("the browser gives no {what}"));
            if is_it(&message) {
                return message;
            }
            self.events.push(message);
        }
    }

    /// Navigates to a page and waits until it is loaded.
    pub fn open(&mut self, url: &str) {
        self.events.clear();
        let went = self.call("Page.navigate", json!({ "url": url }));
        assert!(went["errorText"].is_null(), "{url}: {went}");
        let page = went["loaderId"].clone();
        self.wait_until_loaded(0, |loaded| *loaded == page);
    }

    /// As `open`, and answers the login dialog: with `login`, or by closing it. The number of dialogs.
    pub fn open_with_dialog(&mut self, url: &str, login: Option<(&str, &str)>) -> usize {
        self.call("Fetch.enable", json!({ "handleAuthRequests": true }));
        self.events.clear();
        let navigation = self.send("Page.navigate", json!({ "url": url }));
        let (mut dialogs, mut page, mut loaded) = (0, Value::Null, Vec::new());
        // The load of the page before may be reported late, and that of this one before the browser names it.
        while page.is_null() || !loaded.contains(&page) {
            let message = self.wait_for("page", |message| {
                message["id"] == navigation
                    || message["params"]["name"] == "load"
                    || message["method"].as_str().is_some_and(|method| method.starts_with("Fetch."))
            });
            let request = &message["params"]["requestId"];
            match message["method"].as_str() {
                Some("Fetch.authRequired") => {
                    let is_page = message["params"]["resourceType"] == "Document";
                    dialogs += usize::from(is_page);
                    let answer = match login.filter(|_| dialogs <= 1) {
                        Some((user, password)) => {
                            json!({ "response": "ProvideCredentials", "username": user, "password": password })
                        }
                        None => json!({ "response": "CancelAuth" }),
                    };
                    let answer = json!({ "requestId": request, "authChallengeResponse": answer });
                    self.send("Fetch.continueWithAuth", answer);
                }
                Some("Fetch.requestPaused") => {
                    self.send("Fetch.continueRequest", json!({ "requestId": request }));
                }
                Some(_) => loaded.push(message["params"]["loaderId"].clone()),
                None => page = message["result"]["loaderId"].clone(),
            }
        }
        self.page = page;
        self.call("Fetch.disable", json!({}));
        dialogs
    }

    /// Clicks something that leads to another page and waits until that is loaded.
    pub fn follow(&mut self, selector: &str) {
        let (before, page) = (self.events.len(), self.page.clone());
        self.click(selector);
        self.wait_until_loaded(before, |loaded| *loaded != page);
    }

    /// Waits until a page is loaded, unless the events from this index on have said so.
    fn wait_until_loaded(&mut self, from: usize, is_it: impl Fn(&Value) -> bool) {
        let is_loaded = |message: &Value| {
            message["method"] == "Page.lifecycleEvent"
                && message["params"]["name"] == "load"
                && is_it(&message["params"]["loaderId"])
        };
        let loaded = self.events[from..].iter().find(|event| is_loaded(event)).cloned();
        let loaded = loaded.unwrap_or_else(|| self.wait_for("page", is_loaded));
        self.page = loaded["params"]["loaderId"].clone();
    }

    /// The value of a JavaScript expression in the page, or what its promise is resolved with.
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Clicks in the middle of an element.
    pub fn click(&mut self, selector: &str) {
        let place = self.value(&format!(
            "(() => {{ const r = document.querySelector({selector:?}).getBoundingClientRect();
                return [r.x + r.width / 2, r.y + r.height / 2] }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Presses and releases a key that has this code (UI Events, `KeyboardEvent.code`).
    pub fn press(&mut self, key: &str, code: u32) {
        let text = match key {
            "Enter" => "\r",
            " " => " ",
            _ => "",
        };
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Errors of the page, and violations of its policy.
    pub fn errors(&self) -> Vec<String> {
        let is_error = |event: &&Value| {
            event["method"] == "Runtime.exceptionThrown"
                || event["method"] == "Log.entryAdded" && event["params"]["entry"]["level"] == "error"
        };
        // Every browser requests an icon, which is missing here.
        self.events
            .iter()
            .filter(is_error)
            .map(Value::to_string)
            .filter(|text| !text.contains("favicon"))
            .collect()
    }

    pub fn phone(&mut self, dark: bool) {
        let phone = json!({ "width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true });
        self.call("Emulation.setDeviceMetricsOverride", phone);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", media);
    }

    /// A screenshot as PNG.
    pub fn screenshot(&mut self) -> Vec<u8> {
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        base64(shot["data"].as_str().expect("it is text"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its child processes end only when it exits by itself.
        _ = self.commands.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let until = Instant::now() + TIMEOUT / 2;
        // The stream of messages ends with the browser.
        while self.messages.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok() {}
        // Fails only if the browser has exited.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// RFC 4648 §4.
fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for digit in text.bytes().filter(|byte| *byte != b'=') {
        let value = DIGITS.iter().position(|known| *known == digit).expect("it is base64");
        (bits, count) = (bits << 6 | value as u32, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    bytes
}
