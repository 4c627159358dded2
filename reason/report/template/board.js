"use strict";
// One board: cells that show tokens. The report paints what was recorded, the play page what it computes.
class Board {
  // shape: rows, columns, box, glyphs, fills. lines: boards one above the other (text: the question, the answer).
  constructor(element, shape, { lines = 1, grid = false } = {}) {
    Object.assign(this, { element, shape: { ...shape, glyphs: [...shape.glyphs] }, cells: [] });
    const { rows, columns } = shape;
    element.className = `board${columns > 12 && rows > 1 ? " dense" : ""}`;
    element.style.setProperty("--columns", columns);
    element.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    element.replaceChildren();
    for (let row = 0; row < rows * lines; row++) {
      const line = document.createElement("div");
      if (grid) line.setAttribute("role", "row");
      for (let column = 0; column < columns; column++) {
        const cell = document.createElement("i");
        if (grid) cell.setAttribute("role", "gridcell");
        line.append(cell);
        this.cells.push(cell);
      }
      element.append(line);
    }
  }

  paint(i, token, classes, sure = 1) {
    const { box, rows, columns, fills, glyphs } = this.shape, cell = this.cells[i];
    const row = Math.floor(i / columns), column = i % columns;
    if (box && (row + 1) % box[0] === 0 && row + 1 < rows) classes.push("down");
    if (box && (column + 1) % box[1] === 0 && column + 1 < columns) classes.push("right");
    const fill = fills[token], glyph = glyphs[token] ?? "?", name = classes.join(" ") + (fill ? " filled" : "");
    if (cell.className !== name) cell.className = name;
    if (cell.textContent !== glyph) cell.textContent = glyph;
    cell.style.background = fill ? (sure < 1 ? `color-mix(in srgb, ${fill} ${Math.round(100 * sure)}%, var(--card))` : fill) : "";
    cell.style.setProperty("--sure", sure.toFixed(2));
  }

  clear(i) {
    this.cells[i].className = "";
    this.cells[i].textContent = "";
  }
}
