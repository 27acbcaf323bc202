"use strict";
// Everything from the server is set as text, never as markup.
const $ = id => document.getElementById(id);
const make = (name, text, className) => {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
};
const vector = (name, attributes, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
};

const scale = (value, steps, base) => {
  let at = 0;
  while (value >= base && at < steps.length - 1) { value /= base; at++; }
  const digits = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
  return value.toFixed(digits) + steps[at];
};
const number = value => scale(value, ["", " k", " M", " G"], 1000);
const bytes = value => scale(value, [" B", " kB", " MB", " GB", " TB"], 1000);
const time = micros => micros < 1000 ? micros.toFixed(0) + " µs"
  : micros < 1e6 ? scale(micros / 1000, [" ms"], 1e9) : scale(micros / 1e6, [" s"], 1e9);
const span = seconds => {
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  return days ? `${days} d ${hours} h` : hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min` : `${Math.floor(seconds)} s`;
};

// Each chart: its series by name, with label and colour; what it divides by; how values read.
const CHARTS = [
  { id: "requests", kind: "area", per: true, unit: value => number(value) + "/s", series: [
    ["success", "2xx", "green"], ["redirect", "3xx", "blue"], ["client_error", "4xx", "amber"], ["server_error", "5xx", "red"]] },
  { id: "latency", kind: "line", per: false, unit: time, series: [
    ["first_byte_p50", "half", "green"], ["first_byte_p90", "90 %", "blue"], ["first_byte_p99", "99 %", "violet"]] },
  { id: "traffic", kind: "line", per: true, unit: value => bytes(value) + "/s", series: [
    ["sent", "sent", "blue"], ["received", "received", "green"]] },
  { id: "connections", kind: "area", per: false, unit: number, series: [
    ["active", "active", "blue"], ["idle", "idle", "green"]] },
];

let history = null;
let range = 0;
let last = null;

const points = () => {
  const { step, count, points } = history;
  const known = new Map(points.map(point => [point[0], point]));
  const end = Math.floor(history.now / step) * step;
  const all = [];
  for (let at = count; at >= 1; at--) all.push(known.get(end - at * step) || null);
  return { step, all };
};

const niceMax = value => {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map(n => n * power).find(n => n >= value);
};

const draw = chart => {
  const { step, all } = points();
  const svg = $("chart-" + chart.id);
  const width = Math.max(svg.clientWidth, 200), height = Math.max(svg.clientHeight, 100), bottom = height - 16, left = 0;
  const per = chart.per ? step : 1;
  const columns = chart.series.map(([name]) => history.series.indexOf(name) + 1);
  const values = columns.map(column => all.map(point => point ? point[column] / per : 0));
  const stacked = chart.kind === "area";
  const sums = all.map((_, at) => values.reduce((sum, series) => stacked ? sum + series[at] : Math.max(sum, series[at]), 0));
  const top = niceMax(Math.max(...sums));
  const x = at => left + at * (width - left) / Math.max(all.length - 1, 1);
  const y = value => bottom - value / top * (bottom - 14);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const nodes = [0, 0.5, 1].map(part =>
    vector("line", { class: "grid", x1: left, x2: width, y1: y(top * part), y2: y(top * part) }));
  const below = all.map(() => 0);
  chart.series.forEach(([, , colour], index) => {
    const line = values[index].map((value, at) => [x(at), y(stacked ? below[at] + value : value)]);
    const path = line.map(([a, b], at) => `${at ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
    if (stacked) {
      const back = all.map((_, at) => [x(at), y(below[at])]).reverse();
      nodes.push(vector("path", { class: `area ${colour}`, d: path + back.map(([a, b]) => `L${a.toFixed(1)} ${b.toFixed(1)}`).join("") + "Z" }));
      values[index].forEach((value, at) => { below[at] += value; });
    } else {
      nodes.push(vector("path", { class: `line ${colour}`, d: path }));
    }
  });
  nodes.push(...[0.5, 1].map(part => vector("text", { x: left, y: y(top * part) - 3 }, chart.unit(top * part))));
  const ago = step * all.length;
  nodes.push(vector("text", { x: left, y: height - 2 }, `${span(ago)} ago`));
  nodes.push(vector("text", { x: width, y: height - 2, "text-anchor": "end" }, "now"));
  svg.replaceChildren(...nodes);
  const latest = values.map(series => chart.unit(series[series.length - 1]));
  $("legend-" + chart.id).replaceChildren(...chart.series.map(([, label, colour], index) => {
    const item = make("li", undefined, colour);
    item.append(make("span", `${label} ${latest[index]}`));
    return item;
  }));
  svg.setAttribute("aria-label", chart.series.map(([, label], index) => `${label} ${latest[index]}`).join(", "));
};
const drawAll = () => { if (history) CHARTS.forEach(draw); };

const tile = (id, text, bad) => {
  $(id).textContent = text;
  $(id).parentElement.classList.toggle("bad", Boolean(bad));
};

const showRates = (responses, errors, sent) => {
  tile("rate", number(responses));
  tile("errors", responses ? scale(errors / responses * 100, [" %"], 1e9) : "0 %", errors > 0);
  tile("sending", bytes(sent) + "/s");
};

// That of the last step with a response.
const showFirstByte = () => {
  const column = history.series.indexOf("first_byte_p99") + 1;
  const last = points().all.filter(point => point && point[column]).pop();
  tile("first-byte", last ? time(last[column]) : "–");
};

// Until there are two events to compare.
const showLastSecond = () => {
  if (history.step !== 1) return;
  const point = points().all.pop() || [];
  const value = name => point[history.series.indexOf(name) + 1] || 0;
  showRates(["success", "redirect", "client_error", "server_error"].reduce((sum, name) => sum + value(name), 0),
    value("server_error"), value("sent"));
};

const showTiles = all => {
  const now = performance.now();
  if (last) {
    const seconds = (now - last.at) / 1000;
    const rate = key => Math.max(0, all[key] - last.all[key]) / seconds;
    const responses = [1, 2, 3, 4, 5].reduce((sum, digit) => sum + rate(`status_${digit}xx`), 0);
    showRates(responses, rate("status_5xx"), rate("bytes"));
    const hits = rate("cache_hits"), looked = hits + rate("cache_misses");
    tile("hits", looked ? scale(hits / looked * 100, [" %"], 1e9) : "–");
  }
  tile("open", number(all.active + all.idle + all.parked));
  tile("late", time(all.delay_us), all.delay_us > 100000);
  last = { at: now, all, is_second: Boolean(last) };
};

const row = cells => {
  const line = make("tr");
  for (const [text, className, node] of cells) {
    const cell = make("td", node ? undefined : text, className);
    if (node) cell.append(node);
    line.append(cell);
  }
  return line;
};
const colourOf = status => ["", "", "green", "blue", "amber", "red"][Math.floor(status / 100)] || "";

// Rates need two events.
const MOST_ZONES = 20;
let zonesBefore = null;
const showZones = report => {
  const all = report.hosts.concat(report.routes), now = performance.now();
  const key = zone => JSON.stringify([zone.host, zone.route]);
  const responses = zone => [1, 2, 3, 4, 5].reduce((sum, digit) => sum + zone[`status_${digit}xx`], 0);
  const seconds = zonesBefore ? (now - zonesBefore.at) / 1000 : 1;
  const loads = all.map(zone => {
    const before = zonesBefore && zonesBefore.by.get(key(zone)) || zone;
    const rate = value => Math.max(0, value(zone) - value(before)) / seconds;
    return { zone, rate: rate(responses), bad: rate(zone => zone.status_5xx), sent: rate(zone => zone.bytes), sum: responses(zone) };
  }).sort((a, b) => b.rate - a.rate || b.sum - a.sum);
  zonesBefore = { at: now, by: new Map(all.map(zone => [key(zone), zone])) };
  $("zones").hidden = !all.length;
  $("zone-rest").textContent = loads.length > MOST_ZONES ? `and ${loads.length - MOST_ZONES} more with less load` : "";
  $("zone-rows").replaceChildren(...loads.slice(0, MOST_ZONES).map(({ zone, rate, bad, sent }) => row([
    [zone.route ? `${zone.host} ${zone.route}` : zone.host, "path"], [number(rate) + "/s", "n"], [number(zone.status_4xx), "n hide-small"],
    ["", "n", make("span", number(zone.status_5xx), bad > 0 ? "red" : "")], [bytes(sent) + "/s", "n hide-small"],
    [time(zone.duration_us.p50), "n hide-small"], [time(zone.duration_us.p99), "n"]])));
};

const showCertificates = report => {
  $("certificates").hidden = !report.certificates.length;
  $("certificate-rows").replaceChildren(...report.certificates.map(certificate => {
    const days = Math.floor((certificate.not_after - Date.now() / 1000) / 86400);
    return row([[certificate.name, "path"], ["", "n", make("span", String(days), days < 7 ? "red" : days < 21 ? "amber" : "")],
      [new Date(certificate.not_after * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC"],
      [certificate.key, "hide-small"], [certificate.file, "path hide-small"]]);
  }));
};

const showEndpoints = report => {
  $("endpoints").hidden = !report.endpoints.length;
  $("endpoint-rows").replaceChildren(...report.endpoints.map(endpoint => row([
    ["", "", make("span", endpoint.state, "badge " + (endpoint.state === "up" ? "green" : endpoint.state === "down" ? "red" : "amber"))],
    [endpoint.application], [endpoint.endpoint, "path"],
    [span(endpoint.since_s), "n hide-small"], [number(endpoint.in_flight), "n hide-small"], [number(endpoint.requests), "n hide-small"],
    [number(endpoint.failures), "n hide-small"], [endpoint.reason, "path hide-small"]])));
};

const requestCells = (request, duration) => [
  [new Date(request.time * 1000).toTimeString().slice(0, 8), "n"],
  ["", "n", make("span", request.status || "…", colourOf(request.status || 0))], [request.method, "hide-small"],
  [request.host, "hide-small"], [request.target, "path"], [time(duration), "n"], [request.client, "hide-small"],
];
let recent = [];
const showRequests = workers => {
  const known = workers.filter(Boolean);
  recent = known.flatMap(worker => worker.last).concat(recent).sort((a, b) => b.time - a.time).slice(0, 50);
  $("last-rows").replaceChildren(...recent.map(request => row([
    ...requestCells(request, request.micros), [bytes(request.sent), "n hide-small"],
    [[request.upstream, request.ended].filter(Boolean).join(": "), "path hide-small"]])));
  const running = known.flatMap(worker => worker.running).sort((a, b) => b.age - a.age).slice(0, 20);
  $("running").hidden = !running.length;
  $("running-rows").replaceChildren(...running.map(request => row([
    ...requestCells(request, request.age), [request.phase, "hide-small"], [request.connection]])));
};

const showCounts = all => {
  for (const cell of document.querySelectorAll("[data-count]")) {
    const value = all[cell.dataset.count];
    if (value !== undefined) cell.textContent = value;
  }
};

const loadHistory = async () => {
  const wanted = range;
  try {
    const response = await fetch("?history=" + wanted);
    if (response.ok && wanted === range) {
      history = await response.json();
      drawAll();
      showFirstByte();
      if (!last || !last.is_second) showLastSecond();
    }
  } catch { /* The stream of events tells that there is no connection. */ }
};

const begin = () => {
  document.documentElement.classList.add("has-js");
  for (const button of document.querySelectorAll("[data-range]")) {
    button.addEventListener("click", () => {
      range = Number(button.dataset.range);
      for (const other of document.querySelectorAll("[data-range]")) other.setAttribute("aria-pressed", String(other === button));
      loadHistory();
    });
  }
  addEventListener("resize", drawAll);
  loadHistory();
  const events = new EventSource("?events");
  const state = (className, text) => {
    if ($("state").className !== className) { $("state").className = className; $("state").textContent = text; }
  };
  events.onopen = () => state("live", "live");
  events.onerror = () => state("lost", "no connection; trying again");
  events.onmessage = event => {
    const { report, requests } = JSON.parse(event.data);
    $("uptime").textContent = span(report.uptime_s);
    showTiles(report.all);
    tile("memory", report.memory === undefined ? "–" : bytes(report.memory));
    showZones(report);
    showEndpoints(report);
    showCertificates(report);
    showRequests(requests);
    showCounts(report.all);
    loadHistory();
  };
};
begin();
