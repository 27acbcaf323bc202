"use strict";
{
  const body = document.getElementById("entries");
  const heads = [...document.querySelectorAll("thead th")];
  const names = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  const columns = [
    { by: "name", first: "asc", key: (row) => row.cells[0].textContent, compare: names.compare },
    { by: "size", first: "desc", key: (row) => parseInt(row.cells[1].title) || 0, compare: (a, b) => a - b },
    { by: "date", first: "desc", key: (row) => Date.parse(row.cells[2].firstChild.dateTime), compare: (a, b) => a - b },
  ];

  const sort = (column, order) => {
    const sign = order === "asc" ? 1 : -1;
    const rows = Array.from(body.rows, (row) => ({
      row,
      folder: row.className === "d" ? 0 : 1,
      key: column.key(row),
      name: columns[0].key(row),
    }));
    rows.sort((a, b) =>
      a.folder - b.folder || sign * column.compare(a.key, b.key) || names.compare(a.name, b.name));
    const sorted = document.createDocumentFragment();
    for (const { row } of rows) sorted.append(row);
    body.append(sorted);
  };

  const show = (column, order) => heads.forEach((head, at) => {
    const { by, first } = columns[at];
    const chosen = columns[at] === column;
    if (chosen) head.setAttribute("aria-sort", order === "asc" ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
    const next = !chosen ? first : order === "asc" ? "desc" : "asc";
    head.firstChild.setAttribute("href", `?sort=${by}&order=${next}`);
  });

  heads.forEach((head, at) => head.firstChild.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const link = event.currentTarget;
    const order = new URLSearchParams(link.search).get("order");
    sort(columns[at], order);
    try { history.replaceState(null, "", link.href) } catch { /* a page opened from a file has no history */ }
    show(columns[at], order);
  }));
}
