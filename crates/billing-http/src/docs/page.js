// The interactive description of the interface, made from /openapi.json. Nothing is loaded from elsewhere, the key is
// kept until the tab is closed, and requests go to this service only. Every text enters the page as text, never as markup.
"use strict";

const METHODS = ["get", "post", "patch", "delete"];
const calls = new Map(); // operation id -> {path, method, operation}
let schemas = {};

/** An element with attributes, and texts or elements in it. */
function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** A sentence whose parts between backticks are code. */
const prose = (text) => text.split("`").map((part, i) => (i % 2 ? make("code", {}, part) : part));

/** The name of a schema that is referred to. */
const nameOf = (schema) => schema.$ref && schema.$ref.split("/").pop();

/** A type in a few words. */
function typeText(schema) {
  if (schema.$ref) return nameOf(schema);
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.oneOf) return schema.oneOf.map(typeText).join(" or ");
  if (schema.type === "array") return `list of ${typeText(schema.items)}`;
  return Array.isArray(schema.type) ? schema.type.join(" or ") : schema.type || "anything";
}

/** The object inside a type, through lists and choices. */
function objectIn(schema) {
  if (schema.$ref) return objectIn(schemas[nameOf(schema)] || {});
  if (schema.type === "array") return objectIn(schema.items);
  if (schema.oneOf) return schema.oneOf.map(objectIn).find(Boolean);
  return schema.properties ? schema : undefined;
}

/** The fields of a type; those of nested ones are made when they are opened, so that a type may contain itself. */
function fields(schema) {
  const object = objectIn(schema);
  if (!object) return make("p", { class: "type" }, typeText(schema));
  const list = make("ul", { class: "fields" });
  for (const [name, field] of Object.entries(object.properties)) {
    const title = [make("code", {}, name), " ", make("span", { class: "type" }, typeText(field))];
    if ((object.required || []).includes(name)) title.push(" ", make("span", { class: "must" }, "required"));
    if (field.description) title.push(" — ", ...prose(field.description));
    if (!objectIn(field)) {
      list.append(make("li", {}, ...title));
      continue;
    }
    const nested = make("details", {}, make("summary", {}, ...title));
    nested.addEventListener("toggle", () => nested.children.length === 1 && nested.append(fields(field)));
    list.append(make("li", {}, nested));
  }
  return list;
}

/** Sends a call of the table. */
async function send({ path, method }, values) {
  const filled = path.replace(/{(\w+)}/g, (_, name) => encodeURIComponent(values.path[name] ?? ""));
  const query = new URLSearchParams(Object.entries(values.query).filter(([, value]) => value !== ""));
  const url = query.size ? `${filled}?${query}` : filled;
  const headers = { "X-API-KEY": document.getElementById("key").value };
  for (const [name, value] of Object.entries(values.header || {})) if (value) headers[name] = value;
  if (values.body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(url, { method: method.toUpperCase(), headers, body: values.body });
  return { url, answer, text: await answer.text() };
}

/** What a JSON pointer points at. */
const at = (value, pointer) => pointer.split("/").slice(1).reduce((part, key) => part?.[key], value);

/**
 * An example with its references carried out: `@now`, `@today`, `@soon`, `@unique`, and `@operation#/pointer`, which
 * runs the example of another call and takes a part of its answer, or with `@operation!/pointer` of the body that it sent. `done`
 * holds bodies and answers of those run already.
 */
async function resolve(value, done) {
  if (Array.isArray(value)) {
    const resolved = [];
    for (const item of value) resolved.push(await resolve(item, done));
    return resolved;
  }
  if (value && typeof value === "object") {
    const resolved = {};
    for (const [key, item] of Object.entries(value)) resolved[key] = await resolve(item, done);
    return resolved;
  }
  if (typeof value !== "string" || !value.includes("@")) return value;
  const reference = /^@(\w+)([#!])(.*)$/.exec(value);
  if (!reference) {
    const instant = (days) => new Date(Date.now() + days * 86400000).toISOString();
    return value
      .replace("@now", instant(0))
      .replace("@soon", instant(20))
      .replace("@today", instant(0).slice(0, 10))
      .replace("@unique", () => String(crypto.getRandomValues(new Uint32Array(1))[0] % 100000000));
  }
  const [, id, part, pointer] = reference;
  if (!done.has(id)) {
    const call = calls.get(id);
    const example = await exampleOf(call, done);
    const { answer, text } = await send(call, example);
    if (!answer.ok) throw new Error(`${call.method.toUpperCase()} ${call.path} answered ${answer.status}: ${text}`);
    done.set(id, { "#": JSON.parse(text), "!": example.body && JSON.parse(example.body) });
  }
  return at(done.get(id)[part], pointer);
}

/** The calls that the example of a call makes before it can be shown, each once, in the order in which they are made. */
function callsBefore(call, found = new Map()) {
  for (const [, id] of JSON.stringify(call.operation["x-example"] || {}).matchAll(/"@(\w+)[#!]/g)) {
    if (found.has(id)) continue;
    callsBefore(calls.get(id), found);
    found.set(id, calls.get(id));
  }
  return [...found.values()];
}

/** Asks in the page, and waits for the answer. */
function ask(place, question, names, yes) {
  return new Promise((decide) => {
    const [agree, refuse] = [make("button", {}, yes), make("button", { class: "quiet" }, "Cancel")];
    const list = make("ul", {}, ...names.map((name) => make("li", {}, make("code", {}, name))));
    place.replaceChildren(make("div", { class: "ask" }, make("p", {}, question), list, agree, refuse));
    agree.addEventListener("click", () => decide(true));
    refuse.addEventListener("click", () => decide(false));
    agree.focus();
  });
}

/** A call as people name it. */
const named = ({ method, path }) => `${method.toUpperCase()} ${path}`;

/** The example of a call: what goes into its path, its query and its body. */
async function exampleOf({ operation }, done) {
  const example = operation["x-example"] || {};
  // One after the other: a later part may refer to what an earlier one has made.
  const path = await resolve(example.path || {}, done);
  const query = await resolve(example.query || {}, done);
  const body = example.body === undefined ? undefined : JSON.stringify(await resolve(example.body, done), null, 2);
  return { path, query, body };
}

/** The same call for a shell. */
function curl(method, url, body) {
  const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  const parts = [`curl -X ${method.toUpperCase()} ${quoted(location.origin + url)}`, `-H "X-API-KEY: $KEY"`];
  if (body !== undefined) parts.push(`-H 'Content-Type: application/json'`, `-d ${quoted(body)}`);
  return parts.join(" \\\n  ");
}

/** What is shown of a call once it is opened. */
function form(call) {
  const { operation, method } = call;
  const inputs = { path: {}, query: {}, header: {} };
  const parts = [];
  const parameters = operation.parameters || [];
  if (parameters.length) {
    const rows = parameters.map((parameter) => {
      const input = make("input", { "aria-label": parameter.name });
      inputs[parameter.in][parameter.name] = input;
      const name = [make("code", {}, parameter.name)];
      if (parameter.required) name.push(" ", make("span", { class: "must" }, "required"));
      return make("tr", {}, make("td", {}, ...name), make("td", {}, input), make("td", {}, ...prose(parameter.description || "")));
    });
    parts.push(make("h3", {}, "Parameters"), make("table", {}, ...rows));
  }
  let body;
  if (operation.requestBody) {
    body = make("textarea", { spellcheck: "false", "aria-label": "body" });
    const schema = operation.requestBody.content["application/json"].schema;
    parts.push(make("h3", {}, "Body"), body, make("details", {}, make("summary", {}, "Its fields"), fields(schema)));
  }
  const result = make("div", { "aria-live": "polite" });
  const button = make("button", {}, "Send");
  const filler = make("button", { class: "quiet" }, "Fill in the example");
  const values = () => ({
    path: Object.fromEntries(Object.entries(inputs.path).map(([name, input]) => [name, input.value])),
    query: Object.fromEntries(Object.entries(inputs.query).map(([name, input]) => [name, input.value])),
    header: Object.fromEntries(Object.entries(inputs.header).map(([name, input]) => [name, input.value])),
    body: body?.value,
  });
  const failed = (error) => result.replaceChildren(make("p", { class: "failed" }, String(error.message || error)));
  filler.addEventListener("click", async () => {
    try {
      const before = callsBefore(call);
      const writing = before.filter(({ method }) => method !== "get");
      const question = "The example needs these to exist. Make them now? What they write stays in the organization of your key.";
      if (writing.length && !(await ask(result, question, writing.map(named), "Make them and fill in"))) {
        result.replaceChildren(make("p", { class: "type" }, "Nothing was called."));
        return;
      }
      const done = new Map();
      const example = await exampleOf(call, done);
      for (const part of ["path", "query"]) {
        for (const [name, value] of Object.entries(example[part])) inputs[part][name].value = value;
      }
      if (body && example.body !== undefined) body.value = example.body;
      const made = [...done.keys()].map((id) => named(calls.get(id)));
      result.replaceChildren(make("p", { class: "type" }, made.length ? `Called for it: ${made.join(", ")}` : ""));
    } catch (error) { failed(error); }
  });
  button.addEventListener("click", async () => {
    try {
      const sent = values();
      const began = performance.now();
      const { url, answer, text } = await send(call, sent);
      const took = Math.round(performance.now() - began);
      let shown = text;
      try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON: shown as it came */ }
      // JSON.parse makes floats of numbers: where that changes digits, the text is shown as it came.
      if (shown.replace(/\s/g, "") !== text.replace(/\s/g, "")) shown = text;
      const status = `${answer.status} in ${took} ms, request ${answer.headers.get("x-request-id")}`;
      result.replaceChildren(
        make("h3", {}, "Answer"),
        make("p", { class: answer.ok ? "worked" : "failed" }, status),
        make("pre", { tabindex: "0" }, shown),
        make("h3", {}, "In a shell"),
        make("pre", { tabindex: "0" }, curl(method, url, sent.body)),
      );
    } catch (error) { failed(error); }
  });
  parts.push(make("p", {}, filler, button), result);
  const [status, success] = Object.entries(operation.responses).find(([status]) => status !== "default") || [];
  const schema = success?.content && Object.values(success.content)[0].schema;
  if (schema) parts.push(make("details", {}, make("summary", {}, `What ${status} answers`), fields(schema)));
  return make("div", {}, ...parts);
}

/** One call of the list; its form is made when it is first opened. */
function entry(call) {
  const { path, method, operation } = call;
  const name = method.toUpperCase();
  const details = make("details", { class: "call", id: operation.operationId },
    make("summary", {},
      make("span", { class: `method ${name}` }, name),
      make("span", { class: "path" }, path),
      make("span", { class: "about" }, operation.summary)));
  details.addEventListener("toggle", () => {
    if (details.children.length === 1) details.append(form(call));
    if (details.open) history.replaceState(null, "", `#${operation.operationId}`);
  });
  return details;
}

/** Hides the calls that do not have the text in them. */
function find(text) {
  for (const details of document.querySelectorAll("details.call")) {
    details.hidden = !details.querySelector("summary").textContent.toLowerCase().includes(text.toLowerCase());
  }
  for (const section of document.querySelectorAll("section")) {
    section.hidden = !section.querySelector("details.call:not([hidden])");
  }
}

/** Keeps the key while this tab is open, and nowhere else. */
function keepKey() {
  const key = document.getElementById("key");
  key.value = sessionStorage.getItem("key") || "";
  key.addEventListener("input", () => sessionStorage.setItem("key", key.value));
}

async function start() {
  keepKey();
  document.getElementById("calls").replaceChildren("Reading the description …");
  const api = await (await fetch("/openapi.json")).json();
  schemas = api.components.schemas;
  document.getElementById("about").replaceChildren(...prose(api.info.description));
  // The nouns in the order of their use, as the description has them.
  const section = ({ name, description }) =>
    make("section", {}, make("h2", {}, name.replaceAll("_", " ")), make("p", {}, ...prose(description || "")));
  const sections = new Map(api.tags.map((tag) => [tag.name, section(tag)]));
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of METHODS.filter((method) => item[method])) {
      const operation = item[method];
      const call = { path, method, operation };
      calls.set(operation.operationId, call);
      sections.get(operation.tags[0]).append(entry(call));
    }
  }
  document.getElementById("calls").replaceChildren(...sections.values());
  document.getElementById("find").addEventListener("input", (event) => find(event.target.value));
  const wanted = location.hash && document.getElementById(location.hash.slice(1));
  if (wanted) { wanted.open = true; wanted.scrollIntoView(); }
}

start().catch((error) => document.getElementById("calls").replaceChildren(`The description could not be read: ${error}`));
