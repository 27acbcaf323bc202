"use strict";
// Everything from the server is set as text, never as markup.
const $ = id => document.getElementById(id);
const all = selector => [...document.querySelectorAll(selector)];
const set = (node, text) => { if (node.textContent !== text) node.textContent = text; };
const vector = (name, attributes, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
};

// At most three digits: the width changes little. A value and its unit stay on one line.
const scaled = (value, units) => {
  let at = 0;
  while (value >= 999.5 && at < units.length - 1) { value /= 1000; at++; }
  const digits = value >= 99.95 || Number.isInteger(value) ? 0 : value >= 9.995 || !at ? 1 : 2;
  return value.toFixed(digits) + (units[at] && "\u00a0" + units[at]);
};
const number = value => scaled(value, ["", "k", "M", "G"]);
const perSecond = value => number(value) + "/s";
const count = value => value < 1e6 ? value.toLocaleString("en-US") : number(value);
const bytes = value => scaled(Math.round(value), ["B", "kB", "MB", "GB", "TB"]);
const bytesPerSecond = value => bytes(value) + "/s";
const time = micros => scaled(Math.round(micros), ["µs", "ms", "s"]);
const percent = part => scaled(part * 100, ["%"]);
const span = seconds => {
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  const text = days ? `${days} d ${hours} h` : hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min` : `${Math.floor(seconds)} s`;
  return text.replaceAll(" ", "\u00a0");
};
const clock = (seconds, length = 8) => new Date(seconds * 1000).toTimeString().slice(0, length);
const date = seconds => new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC";
const NONE = "–";

// Each chart: its series from the top; `per`: divided by the seconds of a step; `least`: of the axis.
const CHARTS = [
  { id: "requests", title: "Responses", stacked: true, per: true, least: 2, unit: perSecond, series: [
    ["success", "2xx", "green"], ["redirect", "3xx", "blue"], ["client_error", "4xx", "amber"], ["server_error", "5xx", "red"]] },
  { id: "latency", title: "Time to the first byte", log: true, unit: time, series: [
    ["first_byte_p99", "p99", "violet"], ["first_byte_p90", "p90", "blue"], ["first_byte_p50", "p50", "green"]] },
  { id: "traffic", title: "Traffic", per: true, least: 2000, unit: bytesPerSecond, series: [
    ["sent", "Sent", "blue"], ["received", "Received", "green"]] },
  { id: "connections", title: "Connections", stacked: true, least: 2, unit: number, series: [
    ["idle", "Idle", "green"], ["active", "Active", "blue"]] },
];
const LEFT = 62, TOP = 8, BOTTOM = 20;

let past = null;
let range = Math.max(["", "#hour", "#day"].indexOf(location.hash), 0);
let since = Date.parse($("since").dateTime) / 1000;
// The step that is read, or null: the last one.
let cursor = null;

// The steps that the charts show, with null where nothing is known.
const steps = () => {
  const { step, points, now } = past;
  const length = past.count;
  const known = new Map(points.map(point => [point[0], point]));
  const first = Math.floor(now / step) * step - length * step;
  return Array.from({ length }, (_, at) => ({ time: first + at * step, point: known.get(first + at * step) }));
};
const valuesOf = (chart, shown) => chart.series.map(([name]) => {
  const column = past.series.indexOf(name) + 1;
  return shown.map(({ time, point }) => {
    // A server at rest makes no points. Zero: there was no response.
    if (chart.log) return (point && point[column]) || null;
    return point ? point[column] / (chart.per ? past.step : 1) : time + past.step > since ? 0 : null;
  });
});

const axis = (chart, values) => {
  const known = values.flat().filter(value => value !== null);
  if (chart.log) {
    const low = Math.min(2, ...known.map(value => Math.floor(Math.log10(value))));
    const high = Math.max(5, ...known.map(value => Math.ceil(Math.log10(value))));
    const ticks = [];
    for (let power = low; power <= high; power += high - low > 6 ? 2 : 1) ticks.push(10 ** power);
    return { ticks, part: value => Math.max((Math.log10(value) - low) / (high - low), 0) };
  }
  const sums = chart.stacked ? values[0].map((_, at) => values.reduce((sum, series) => sum + (series[at] || 0), 0)) : known;
  const most = Math.max(chart.least, ...sums);
  const power = 10 ** Math.floor(Math.log10(most));
  const top = [1, 2, 4, 6, 8, 10].map(n => n * power).find(n => n >= most * 0.999);
  return { ticks: [0, top / 2, top], part: value => value / top };
};

// Where the axis of time has labels.
const timeTicks = shown => {
  if (range === 0) return [0, 15, 30, 45].map(at => [at, `${60 - at} s`]);
  const every = range === 1 ? 900 : 21600;
  const zone = new Date().getTimezoneOffset() * 60;
  return shown.flatMap(({ time }, at) => (time - zone) % every < past.step ? [[at, clock(time, 5)]] : []);
};

const reading = (chart, values, at) => chart.series.map(([, label], index) => {
  const value = values[index][at];
  return [label, value == null ? NONE : chart.unit(value)];
});

const draw = chart => {
  const svg = $("chart-" + chart.id);
  const width = svg.clientWidth, height = svg.clientHeight;
  if (!width) return;
  const shown = steps(), values = valuesOf(chart, shown), { ticks, part } = axis(chart, values);
  const last = shown.length - 1;
  const bottom = height - BOTTOM;
  const x = at => +(LEFT + at * (width - LEFT - 1) / last).toFixed(1);
  const y = value => +(bottom - part(value) * (bottom - TOP)).toFixed(1);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const nodes = [];
  for (const tick of ticks) {
    nodes.push(vector("line", { class: "grid", x1: LEFT, x2: width, y1: y(tick), y2: y(tick) }));
    nodes.push(vector("text", { x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, chart.unit(tick)));
  }
  for (const [at, label] of timeTicks(shown)) {
    nodes.push(vector("line", { class: "grid", x1: x(at), x2: x(at), y1: TOP, y2: bottom }));
    // Labels near the ends would be cut, or cover "now".
    if (range === 0 || (x(at) > LEFT + 14 && x(at) < width - 50)) {
      nodes.push(vector("text", { x: x(at), y: height - 4, "text-anchor": at ? "middle" : "start" }, label));
    }
  }
  nodes.push(vector("text", { x: width, y: height - 4, "text-anchor": "end" }, "now"));
  const below = shown.map(() => bottom);
  // The last series is at the bottom of a stack.
  for (let index = chart.series.length - 1; index >= 0; index--) {
    const line = values[index].map((value, at) => {
      if (value === null) return null;
      if (!chart.stacked) return y(value);
      // A few errors among many responses stay visible.
      return below[at] - (value > 0 ? Math.max(bottom - y(value), 1.5) : 0);
    });
    let d = "";
    for (let at = 0; at <= last; at++) {
      if (line[at] === null) continue;
      const first = at;
      while (at < last && line[at + 1] !== null) at++;
      const run = line.slice(first, at + 1).map((y, n) => `${x(first + n)} ${y}`);
      const back = below.slice(first, at + 1).map((y, n) => `${x(first + n)} ${y}`).reverse();
      d += `M${run.join("L")}${chart.stacked ? `L${back.join("L")}Z` : first === at ? "m-1.5 0h3" : ""}`;
    }
    nodes.push(vector("path", { class: `${chart.stacked ? "area" : "line"} ${chart.series[index][2]}`, d }));
    if (chart.stacked) line.forEach((y, at) => { if (y !== null) below[at] = y; });
  }
  const at = Math.min(cursor ?? last, last);
  if (cursor !== null) nodes.push(vector("line", { class: "cursor", x1: x(at), x2: x(at), y1: TOP, y2: bottom }));
  svg.replaceChildren(...nodes);
  const read = reading(chart, values, at);
  read.forEach(([label, value], index) => set($("legend-" + chart.id).children[index].firstChild, `${label} ${value}`));
  // A reader is told of what the user chose, not of each second.
  svg.setAttribute("aria-valuemax", last);
  if (cursor !== null || document.activeElement !== svg) {
    svg.setAttribute("aria-valuenow", at);
    svg.setAttribute("aria-valuetext", `${clock(shown[at].time)}: ${read.map(pair => pair.join(" ")).join(", ")}`);
  }
};
const drawAll = () => {
  if (!past) return;
  CHARTS.forEach(draw);
  const at = cursor === null ? null : steps()[cursor];
  set($("moment"), at ? `${clock(at.time)}, ${span(past.now - at.time)} ago` : "Point at a chart, or use its arrow keys, to read it.");
};
const moveTo = at => {
  if (!past || at === cursor) return;
  cursor = at === null ? null : Math.min(Math.max(at, 0), past.count - 1);
  drawAll();
};

const prepareChart = chart => {
  const svg = $("chart-" + chart.id);
  for (const [key, value] of [["role", "slider"], ["preserveAspectRatio", "xMinYMid"], ["aria-label", chart.title], ["aria-valuemin", 0], ["aria-valuenow", 0]]) svg.setAttribute(key, value);
  $("legend-" + chart.id).append(...chart.series.map(([, label, colour]) => {
    const item = document.createElement("li");
    item.className = colour;
    item.append(document.createElement("span"));
    item.firstChild.textContent = `${label} ${NONE}`;
    return item;
  }));
  const point = event => {
    if (!past) return;
    const box = svg.getBoundingClientRect();
    moveTo(Math.round((event.clientX - box.left - LEFT) / (box.width - LEFT - 1) * (past.count - 1)));
  };
  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerdown", point);
  svg.addEventListener("pointerleave", () => moveTo(null));
  svg.addEventListener("blur", () => moveTo(null));
  svg.addEventListener("keydown", event => {
    if (!past) return;
    const last = past.count - 1, now = cursor ?? last;
    const to = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1,
      PageUp: now + 10, PageDown: now - 10, Home: 0, End: last, Escape: null }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    moveTo(to);
  });
};

// Rows are changed in place: a selection stays, and nothing moves in vain.
const fill = (id, rows) => {
  const body = $(id);
  const heads = body.parentElement.tHead.rows[0].cells;
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, at) => {
    const line = body.rows[at] || body.insertRow();
    cells.forEach(([text, name = ""], column) => {
      const cell = line.cells[column] || line.insertCell();
      if (!cell.dataset.label) cell.dataset.label = heads[column].textContent;
      set(cell, text);
      cell.title = name.includes("path") ? text : "";
      if (cell.className !== name) cell.className = name;
    });
  });
};

const tile = (id, text, name) => { set($(id), text); $(id).className = name || ""; };
// The last second. Only the history says which number is which.
const showLastSecond = () => {
  const point = past.step === 1 ? past.points.at(-1) : second;
  const value = name => point ? point[past.series.indexOf(name) + 1] : 0;
  const errors = value("server_error");
  const responses = value("success") + value("redirect") + value("client_error") + errors;
  const hits = value("cache_hits"), looked = hits + value("cache_misses");
  tile("rate", perSecond(responses));
  tile("errors", responses ? percent(errors / responses) : NONE, errors && "red");
  tile("first-byte", value("first_byte_p99") ? time(value("first_byte_p99")) : NONE);
  tile("sending", bytesPerSecond(value("sent")));
  tile("hits", looked ? percent(hits / looked) : NONE);
};
const showTiles = report => {
  if (past) showLastSecond();
  tile("open", number(report.all.active + report.all.idle + report.all.parked));
  tile("late", time(report.all.delay_us), report.all.delay_us > 100000 && "red");
  tile("memory", report.memory === undefined ? NONE : bytes(report.memory));
};
let second = null, recent = [], asks = 0;

// Hosts and routes by their names. An event has those that have changed.
const zones = new Map();
const WINDOW = 10000;
const FEW = 10;
let kind = "host";
let sortBy = 1, sign = -1;
let sorted = [], sortedAt = 0;
let showsAll = false;
const COLUMNS = [
  entry => entry.name, entry => entry.rate, entry => entry.zone.status_4xx, entry => entry.zone.status_5xx,
  entry => entry.sent, entry => entry.zone.duration_us.p50, entry => entry.zone.duration_us.p99,
];
const takeZones = report => {
  const now = performance.now();
  for (const zone of report.hosts.concat(report.routes)) {
    const name = zone.route === undefined ? zone.host : `${zone.host} ${zone.route}`;
    const key = (zone.route === undefined ? "host " : "route ") + name;
    const entry = zones.get(key) || { name, kind: key.split(" ", 1)[0], samples: [] };
    entry.zone = zone;
    zones.set(key, entry);
  }
  for (const entry of zones.values()) {
    const { zone, samples } = entry;
    const total = [1, 2, 3, 4, 5].reduce((sum, digit) => sum + zone[`status_${digit}xx`], 0);
    samples.push([now, total, zone.bytes]);
    while (samples.length > 2 && samples[1][0] <= now - WINDOW) samples.shift();
    const [at, responses, sent] = samples[0];
    const seconds = (now - at) / 1000 || 1;
    Object.assign(entry, { total, rate: (total - responses) / seconds, sent: (zone.bytes - sent) / seconds });
  }
};
const sortZones = () => {
  const key = COLUMNS[sortBy];
  const compare = (a, b) => a < b ? -1 : a > b ? 1 : 0;
  sorted = [...zones.values()].sort((a, b) => sign * compare(key(a), key(b)) || compare(b.total, a.total) || compare(a.name, b.name));
  sortedAt = performance.now();
};
const showZones = () => {
  // Rows that change places each second cannot be read.
  if (sorted.length !== zones.size || performance.now() - sortedAt > 5000) sortZones();
  const rows = sorted.filter(entry => entry.kind === kind);
  $("zones").hidden = !zones.size;
  if (zones.size && !rows[0]) return all(`[data-kind]:not([data-kind=${kind}])`)[0].click();
  $("all-zones").hidden = rows.length <= FEW;
  $("all-zones").setAttribute("aria-expanded", String(showsAll));
  set($("all-zones"), showsAll ? `Show ${FEW}` : `Show all ${rows.length}`);
  fill("zone-rows", rows.slice(0, showsAll ? rows.length : FEW).map(({ name, zone, total, rate, sent }) => [
    [name, "path"], [perSecond(rate), rate ? "n" : "n zero"],
    [count(zone.status_4xx), zone.status_4xx ? "n" : "n zero"], [count(zone.status_5xx), zone.status_5xx ? "n red" : "n zero"],
    [bytesPerSecond(sent), sent >= 1 ? "n" : "n zero"],
    [total ? time(zone.duration_us.p50) : NONE, total ? "n" : "n zero"],
    [total ? time(zone.duration_us.p99) : NONE, total ? "n" : "n zero"]]));
  all("#zones thead th").forEach((head, at) => {
    if (at === sortBy) head.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
};

let certificates = [];
const stateOf = ({ not_before, not_after }) => {
  const now = Date.now() / 1000, left = not_after - now;
  if (left < 0) return ["expired", "red", `expired ${span(-left)} ago`];
  if (not_before > now) return ["early", "red", `valid in ${span(not_before - now)}`];
  return ["valid", left < 7 * 86400 ? "red" : left < 21 * 86400 ? "amber" : "green", `${span(left)} left`];
};
const showCertificates = report => {
  if (report.certificates) certificates = report.certificates.sort((a, b) => a.not_after - b.not_after);
  $("certificates").hidden = !certificates.length;
  fill("certificate-rows", certificates.map(certificate => {
    const [, colour, text] = stateOf(certificate);
    return [[certificate.name, "path"], [text, "state " + colour], [date(certificate.not_after)], [certificate.key], [certificate.file, "path"]];
  }));
};

// The only endpoint of an application stays up, even if all requests to it fail.
const before = new Map();
const markFailing = ({ endpoints }) => {
  for (const now of endpoints) {
    const key = now.application + " " + now.endpoint, old = before.get(key) || now;
    const failed = now.failures - old.failures, sent = now.requests - old.requests;
    now.fails = failed > 0 ? failed >= sent : old.fails && !sent;
    before.set(key, now);
    if (now.state === "up" && now.fails) now.state = "failing";
  }
};
const colourOfState = state => ({ up: "green", down: "red" })[state] || "amber";
const showEndpoints = ({ endpoints }) => {
  $("endpoints").hidden = !endpoints.length;
  fill("endpoint-rows", endpoints.map(endpoint => [
    [endpoint.state, "state " + colourOfState(endpoint.state)], [endpoint.application, "path"], [endpoint.endpoint, "path"],
    [span(endpoint.since_s), "n"], [count(endpoint.in_flight), "n"], [count(endpoint.requests), "n"],
    [count(endpoint.failures), "n"], [endpoint.reason, "path"]]));
};

// What needs attention, with the worst first.
const MOST_PROBLEMS = 8;
const showProblems = report => {
  const red = [], amber = [];
  for (const { endpoint, application, state, since_s, reason } of report.endpoints) {
    if (state !== "up") (state === "down" ? red : amber).push(`${endpoint} of ${application} ${state === "failing" ? "is failing" : `has been ${state} for ${span(since_s)}`}${reason && ": " + reason}`);
  }
  for (const { application, state } of report.breakers) if (state !== "closed") red.push(`the circuit breaker of ${application} is ${state}`);
  for (const certificate of certificates) {
    const [what, colour, text] = stateOf(certificate);
    if (colour !== "green") (colour === "red" ? red : amber).push(`the certificate of ${certificate.name} ${what === "early" ? "is" : "has"} ${text}`);
  }
  if (report.silent_workers) red.push(`${report.silent_workers} of the workers do not respond`);
  if (report.max_descriptors && report.descriptors > report.max_descriptors * 0.9) amber.push(`${report.descriptors} of ${report.max_descriptors} descriptors are open`);
  if (report.log_lines_dropped) amber.push(`${number(report.log_lines_dropped)} lines of logs were dropped`);
  const rest = red.length + amber.length - MOST_PROBLEMS;
  const rows = red.map(text => [text, "red"]).concat(amber.map(text => [text, ""])).slice(0, MOST_PROBLEMS);
  if (rest > 0) rows.push([`and ${rest} more`, ""]);
  const list = $("problem-list");
  while (list.children.length > rows.length) list.lastChild.remove();
  rows.forEach(([text, name], at) => {
    const item = list.children[at] || list.appendChild(document.createElement("li"));
    set(item, text.charAt(0).toUpperCase() + text.slice(1));
    item.className = name;
  });
  $("problems").hidden = !rows.length;
  problems = red.length;
};
let problems = 0;

const MOST_REQUESTS = 50;
// So few that the card need not grow.
const MOST_RUNNING = 6;
let lasts = [], failed = [];
let onlyErrors = false;
const isOwn = ({ target }) => target === location.pathname || target.startsWith(location.pathname + "?");
const lineOf = request => request.method ? `${request.method} ${request.target}` : "(no valid head)";
const colourOf = status => status ? ["", "", "green", "blue", "amber", "red"][Math.floor(status / 100)] || "" : "zero";
const takeRequests = workers => {
  const known = workers.filter(Boolean);
  const keep = (old, more) => more.concat(old).sort((a, b) => b.time - a.time).slice(0, MOST_REQUESTS);
  const ended = known.flatMap(worker => worker.last.reverse()).filter(request => !isOwn(request));
  lasts = keep(lasts, ended);
  failed = keep(failed, ended.filter(request => request.status >= 400 || request.ended));
  const running = known.flatMap(worker => worker.running).filter(request => !isOwn(request)).sort((a, b) => b.age - a.age);
  set($("running"), running.length ? `Running now: ${number(running.length)}` : "Running now");
  fill("running-rows", running.slice(0, MOST_RUNNING).map(request => [
    [time(request.age), "n"], [String(request.status || NONE), "n " + colourOf(request.status)], [request.host, "path"],
    [lineOf(request), "path"], [request.client], [request.phase, "label"], [request.connection, "label"]]));
  $("no-running").hidden = running.length;
};
const showRequests = () => {
  const rows = onlyErrors ? failed : lasts;
  fill("last-rows", rows.map(request => [
    [clock(request.time)], [String(request.status), "n " + colourOf(request.status)], [request.host, "path"],
    [lineOf(request), "path"], [time(request.micros), "n"], [bytes(request.sent), "n"], [request.client],
    [[request.user, request.upstream, request.ended].filter(Boolean).join(", "), "path"]]));
  $("no-last").hidden = rows.length;
  set($("no-last"), onlyErrors ? "No request has failed." : "No request has ended.");
};

const showCounts = counts => {
  for (const cell of all("[data-count]")) {
    const value = counts[cell.dataset.count];
    if (value === undefined) continue;
    set(cell, value.toLocaleString("en-US"));
    cell.className = value ? "n" : "n zero";
  }
};

const showFacts = report => {
  const earlier = report.generations.earlier_s;
  const ending = earlier.length ? `; ${earlier.length} earlier ${earlier.length > 1 ? "processes finish" : "process finishes"} responses, for ${span(Math.max(...earlier))} at most` : "";
  since = report.since;
  $("facts").title = "process " + report.process;
  set($("facts"), `configuration loaded ${span(report.uptime_s)} ago, counting since ${date(report.since)}${ending}`);
};

// A history may lack the newest points.
const takePoints = points => {
  recent = recent.concat(points).slice(-60);
  if (!past) return asks++ || loadPast();
  for (const point of recent) {
    if (point[0] <= past.points.at(-1)?.[0]) continue;
    past.points.push(point);
    past.now = point[0] + past.step;
  }
  past.points = past.points.slice(-past.count);
  drawAll();
};
const loadPast = async () => {
  const wanted = range;
  recent = [];
  try {
    const response = await fetch("?history=" + wanted);
    if (!response.ok || wanted !== range) return;
    past = await response.json();
    takePoints([]);
    showLastSecond();
  } catch { /* The stream of events tells that there is no connection. */ } finally { asks = 0; }
};

// live: there are events; lost: there is no connection; paused: by the user.
let events = null, heard = 0, attempt = 0, timer = 0;
const state = (name, text) => {
  document.body.dataset.state = name;
  set($("state"), text);
  document.title = (name === "lost" ? "No connection: " : problems ? `(${problems}) ` : "") + "taipan: status";
};
const disconnect = () => {
  clearTimeout(timer);
  if (events) events.close();
  events = null;
};
const connect = () => {
  disconnect();
  let isFirst = true;
  events = new EventSource("?events");
  events.onopen = () => { isFirst = true; };
  events.onerror = () => {
    // The browser tries again by itself, unless the response was an error.
    if (events && events.readyState === EventSource.CLOSED) {
      attempt++;
      timer = setTimeout(connect, Math.min(1000 * 2 ** attempt, 30000));
    }
  };
  events.onmessage = event => {
    const { report, points, requests } = JSON.parse(event.data);
    heard = Date.now();
    attempt = 0;
    if (isFirst) {
      lasts = [];
      failed = [];
      zones.clear();
      if (past) loadPast();
    }
    showFacts(report);
    second = points[0].at(-1) || second;
    takePoints(points[range]);
    showTiles(report);
    takeZones(report);
    // A rate needs two moments.
    if (!isFirst) showZones();
    isFirst = false;
    markFailing(report);
    showEndpoints(report);
    showCertificates(report);
    showProblems(report);
    takeRequests(requests);
    showRequests();
    showCounts(report.all);
    state("live", "live");
  };
};
// A connection may be dead without an error; a reload interrupts it for a moment.
const check = () => {
  const { state: now } = document.body.dataset, silence = Date.now() - heard;
  if (now === "paused" || document.hidden || silence < 3500) return;
  if (now !== "lost") state("lost", `no connection since ${clock(heard / 1000)}; trying again`);
  if (silence > 15000 && events && events.readyState === EventSource.OPEN) connect();
};

const begin = () => {
  document.documentElement.classList.add("has-js");
  document.querySelector("details").open = false;
  heard = Date.now();
  state("wait", "connecting");
  CHARTS.forEach(prepareChart);
  const choose = (buttons, button) => buttons.forEach(other => other.setAttribute("aria-pressed", String(other === button)));
  const ranges = all("[data-range]"), kinds = all("[data-kind]");
  choose(ranges, ranges[range]);
  for (const button of ranges) {
    button.addEventListener("click", () => {
      range = Number(button.dataset.range);
      cursor = null;
      choose(ranges, button);
      history.replaceState(null, "", ["#minute", "#hour", "#day"][range]);
      loadPast();
    });
  }
  for (const button of kinds) {
    button.addEventListener("click", () => {
      kind = button.dataset.kind;
      choose(kinds, button);
      showZones();
    });
  }
  all("#zones thead th").forEach((head, at) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      [sortBy, sign] = [at, at === sortBy ? -sign : at ? -1 : 1];
      sortZones();
      showZones();
    });
  });
  $("all-zones").addEventListener("click", () => {
    showsAll = !showsAll;
    showZones();
  });
  $("only-errors").addEventListener("click", () => {
    onlyErrors = !onlyErrors;
    $("only-errors").setAttribute("aria-pressed", String(onlyErrors));
    showRequests();
  });
  $("pause").addEventListener("click", () => {
    const pauses = document.body.dataset.state !== "paused";
    $("pause").setAttribute("aria-pressed", String(pauses));
    if (pauses) {
      disconnect();
      state("paused", `paused at ${clock(Date.now() / 1000)}`);
    } else {
      state("wait", "connecting");
      connect();
    }
  });
  // A page that is not seen costs the server nothing.
  document.addEventListener("visibilitychange", () => {
    if (document.body.dataset.state === "paused") return;
    if (document.hidden) disconnect();
    else { heard = Date.now(); connect(); }
  });
  new ResizeObserver(drawAll).observe(document.querySelector(".charts"));
  setInterval(check, 1000);
  connect();
};
begin();
