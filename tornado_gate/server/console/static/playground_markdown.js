// Markdown as elements: headings, paragraphs, lists, code, bold text and links. Foreign text becomes text nodes only, and every
// step reads the text once, so that a long or hostile answer costs no more than its length.

import { make } from "./playground_dom.js";

const LINK = /\[([^[\]\n]{1,300})\]\((https?:\/\/[^\s()<>"]{1,1000})\)/g;
const HEADING = /^(#{1,6}) +(.*)$/;
const ITEM = /^ {0,8}(?:[-*+]|(\d{1,6})[.)]) +(.*)$/;

/** The elements of a text. */
export function renderMarkdown(text) {
  const blocks = [];
  let lines = [];
  let list = null;
  let code = null;
  const endParagraph = () => {
    if (lines.length) blocks.push(make("p", { class: "text" }, ...renderInline(lines.join("\n"))));
    lines = [];
  };
  for (const line of text.split("\n")) {
    if (line.trimStart().startsWith("```")) {
      endParagraph();
      list = null;
      if (code) code = null;
      else blocks.push(make("pre", { tabIndex: 0 }, code = make("code")));
    } else if (code) {
      code.append(`${line}\n`);
    } else if (ITEM.test(line)) {
      const [, number, rest] = ITEM.exec(line);
      endParagraph();
      const tag = number ? "OL" : "UL";
      if (list?.tagName !== tag) blocks.push(list = make(tag, number ? { start: Number(number) } : {}));
      list.append(make("li", {}, ...renderInline(rest)));
    } else {
      list = null;
      const heading = HEADING.exec(line);
      if (heading || !line.trim()) endParagraph();
      if (heading) blocks.push(make("p", { class: "heading" }, ...renderInline(heading[2])));
      else if (line.trim()) lines.push(line);
    }
  }
  endParagraph();
  return blocks;
}

/** The nodes of a line: every second part between backticks is code, if they are in pairs. */
function renderInline(text) {
  return alternate(text, "`", (part) => [make("code", {}, part)],
    (part) => alternate(part, "**", (bold) => [make("strong", {}, ...renderLinks(bold))], renderLinks));
}

function alternate(text, mark, renderInside, renderOutside) {
  const parts = text.split(mark);
  if (parts.length % 2 === 0) parts.push(parts.splice(-2).join(mark));
  return parts.flatMap((part, at) => (part === "" ? [] : at % 2 ? renderInside(part) : renderOutside(part)));
}

function renderLinks(text) {
  const nodes = [];
  let end = 0;
  for (const found of text.matchAll(LINK)) {
    nodes.push(text.slice(end, found.index), make("a", { href: found[2], rel: "noreferrer noopener", target: "_blank" }, found[1]));
    end = found.index + found[0].length;
  }
  nodes.push(text.slice(end));
  return nodes;
}
