"use strict";
{
  const body = document.getElementById("entries");
  const heads = [...document.querySelectorAll("thead th")];
  const buttons = heads.map((head) => head.querySelector("button"));
  const name = (row) => row.cells[0].textContent;
  const time = (row) => row.cells[2].firstChild;
  const names = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  const columns = [
    { by: "name", first: "asc", key: name, compare: names.compare },
    { by: "size", first: "desc", key: (row) => parseInt(row.cells[1].title) || 0, compare: (a, b) => a - b },
    { by: "date", first: "desc", key: (row) => Date.parse(time(row).dateTime), compare: (a, b) => a - b },
  ];

  const sort = (column, order) => {
    const sign = order === "asc" ? 1 : -1;
    const rows = Array.from(body.rows, (row) => ({
      row,
      folder: row.className === "d" ? 0 : 1,
      key: column.key(row),
      name: name(row),
    }));
    rows.sort((a, b) =>
      a.folder - b.folder || sign * column.compare(a.key, b.key) || names.compare(a.name, b.name));
    const sorted = document.createDocumentFragment();
    for (const { row } of rows) sorted.append(row);
    body.append(sorted);
  };

  const show = (column, order) => heads.forEach((head, at) => {
    const chosen = columns[at] === column;
    if (chosen) head.setAttribute("aria-sort", order === "asc" ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
    buttons[at].value = !chosen ? columns[at].first : order === "asc" ? "desc" : "asc";
  });

  buttons.forEach((button, at) => button.addEventListener("click", (event) => {
    event.preventDefault();
    const order = button.value;
    sort(columns[at], order);
    const query = `?sort=${columns[at].by}&order=${order}`;
    try { history.replaceState(null, "", query) } catch { /* a page opened from a file has no history */ }
    show(columns[at], order);
  }));

  // The server writes UTC; the reader sees the time of the place.
  const two = (number) => String(number).padStart(2, "0");
  for (const row of body.rows) {
    const date = new Date(time(row).dateTime);
    const day = `${String(date.getFullYear()).padStart(4, "0")}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
    time(row).textContent = `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
  }
  buttons[2].textContent = "Modified";
  const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
  body.addEventListener("mouseover", ({ target }) => {
    if (target.dateTime) target.title = whole.format(new Date(target.dateTime));
  });

  const filter = document.getElementById("filter");
  const [input, output] = filter.children;
  filter.hidden = body.rows.length < 2;
  const narrow = () => {
    const words = input.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const row of body.rows) {
      const text = name(row).toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    output.textContent = shown < body.rows.length ? `${shown} of ${body.rows.length}` : "";
  };
  input.addEventListener("input", narrow);
  // A browser that goes back may have kept the text.
  if (input.value) narrow();
}
