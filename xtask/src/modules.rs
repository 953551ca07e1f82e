//! Which module of a crate knows which: read from the sources, and held against a table of floors.
//!
//! The imports are read as text, so that those inside of macros count; comments, literals and modules of tests are left out.
//! A name that a module hands on from another one counts as that other one's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A module's path in its crate: `["rollup", "delta"]`. The crate's own root is empty.
pub type Module = Vec<String>;

/// A crate's modules, and which of them each one names.
#[derive(Default)]
pub struct Graph {
    sources: BTreeMap<Module, String>,
    /// What each module hands on: name to where that comes from.
    handed_on: BTreeMap<Module, BTreeMap<String, Module>>,
    edges: BTreeMap<Module, BTreeSet<Module>>,
}

impl Graph {
    /// The graph of the sources under `src`: paths relative to it, each with its text.
    pub fn of<'t>(sources: impl IntoIterator<Item = (&'t Path, &'t str)>) -> Self {
        let mut graph = Self::default();
        for (path, text) in sources {
            if let Some(module) = module_of(path) {
                graph.sources.insert(module, code_of(text));
            }
        }
        let paths: BTreeMap<Module, Vec<Module>> =
            graph.sources.iter().map(|(module, code)| (module.clone(), paths_in(code))).collect();
        for (module, code) in &graph.sources {
            graph.handed_on.insert(module.clone(), graph.hands_on(module, code));
        }
        for (module, paths) in paths {
            let named = paths.iter().filter_map(|path| graph.resolve(&module, path)).filter(|other| *other != module);
            let named: BTreeSet<Module> = named.collect();
            graph.edges.insert(module, named);
        }
        graph
    }

    /// The top modules that each top module names, itself aside.
    pub fn top_edges(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (module, named) in &self.edges {
            let Some(top) = module.first() else { continue };
            let others = named.iter().filter_map(|other| other.first()).filter(|other| *other != top);
            edges.entry(top.clone()).or_default().extend(others.cloned());
        }
        edges
    }

    /// The modules right below the crate's root.
    pub fn top_modules(&self) -> impl Iterator<Item = &str> {
        self.sources.keys().filter(|module| module.len() == 1).filter_map(|module| module.first()).map(String::as_str)
    }

    /// Modules that name each other in a circle; a parent and what lies under it may.
    pub fn circles(&self) -> Vec<Vec<Module>> {
        let is_family = |a: &Module, b: &Module| a.starts_with(b) || b.starts_with(a);
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            self.edges.keys().map(|module| (module, self.reached_from(module, is_family))).collect();
        let mut circles: Vec<Vec<Module>> = Vec::new();
        for (module, others) in &reached {
            let circle = others.iter().filter(|other| reached.get(**other).is_some_and(|back| back.contains(*module)));
            let circle: Vec<Module> = circle.map(|other| (*other).clone()).collect();
            if circle.len() > 1 && circle.first() == Some(*module) {
                circles.push(circle);
            }
        }
        circles
    }

    fn named_by(&self, module: &[String]) -> impl Iterator<Item = &Module> {
        self.edges.get(module).into_iter().flatten()
    }

    fn reached_from(&self, module: &Module, is_family: impl Fn(&Module, &Module) -> bool) -> BTreeSet<&Module> {
        let (mut seen, mut open) = (BTreeSet::new(), Vec::new());
        let Some((module, _)) = self.edges.get_key_value(module) else { return seen };
        open.push(module);
        while let Some(module) = open.pop() {
            let named = self.named_by(module).filter(|other| !is_family(module, other));
            open.extend(named.filter(|other| seen.insert(*other)));
        }
        seen
    }

    /// What `pub use` and its restricted forms hand on of modules of the same crate.
    fn hands_on(&self, module: &Module, code: &str) -> BTreeMap<String, Module> {
        let mut handed_on = BTreeMap::new();
        for statement in code.split(';') {
            let Some(at) = statement.rfind("pub") else { continue };
            let statement = &statement[at + 3..];
            let statement = match statement.trim_start().strip_prefix('(') {
                Some(rest) => rest.split_once(')').map_or("", |(_, rest)| rest),
                None => statement,
            };
            let Some(tree) = statement.trim_start().strip_prefix("use ") else { continue };
            let mut paths = Vec::new();
            read_tree(tree.trim(), &Vec::new(), &mut paths);
            for (path, alias) in paths {
                let Some((name, _)) = path.split_last() else { continue };
                let from = self.locate(module, &path).or_else(|| self.locate_relative(module, &path));
                if let Some(from) = from.filter(|from| from != module) {
                    handed_on.insert(alias.unwrap_or_else(|| name.clone()), from);
                }
            }
        }
        handed_on
    }

    /// The module that a path ends in or takes something from, where it begins with `crate`, `self` or `super`.
    fn locate(&self, module: &Module, path: &[String]) -> Option<Module> {
        let mut at: Module = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" => module.clone(),
            "super" => module.split_last()?.1.to_vec(),
            _ => return None,
        };
        for name in &path[1..] {
            if name == "super" {
                at.pop();
                continue;
            }
            at.push(name.clone());
            if !self.sources.contains_key(&at) {
                at.pop();
                break;
            }
        }
        Some(at)
    }

    /// The same of a path that begins with the name of a module inside of this one.
    fn locate_relative(&self, module: &Module, path: &[String]) -> Option<Module> {
        let mut inner = module.clone();
        inner.push(path.first()?.clone());
        let path: Vec<String> = std::iter::once("self".to_owned()).chain(path.iter().cloned()).collect();
        self.sources.contains_key(&inner).then(|| self.locate(module, &path)).flatten()
    }

    /// Where what a path names comes from, through whoever hands it on.
    fn resolve(&self, module: &Module, path: &[String]) -> Option<Module> {
        let mut at = self.locate(module, path)?;
        for name in path.iter().filter(|name| !["crate", "self", "super"].contains(&name.as_str())) {
            for _ in 0..8 {
                match self.handed_on.get(&at).and_then(|names| names.get(name)) {
                    Some(from) => at = from.clone(),
                    None => break,
                }
            }
        }
        Some(at)
    }
}

/// `rollup/delta.rs` is `rollup::delta`, `rollup/mod.rs` is `rollup`; tests are none.
fn module_of(path: &Path) -> Option<Module> {
    let mut names: Module = path.with_extension("").iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if names.iter().any(|name| name == "tests") || path.extension().is_none_or(|extension| extension != "rs") {
        return None;
    }
    if names.last().is_some_and(|name| ["mod", "lib", "main"].contains(&name.as_str())) {
        names.pop();
    }
    Some(names)
}

/// The text without comments, literals and modules of tests.
pub fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let mut code = String::with_capacity(text.len());
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        let rest = &text[at..];
        let skipped = match char {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' => end_of_string(rest),
            'r' if is_raw(rest) && !code.ends_with(|before: char| before.is_alphanumeric() || before == '_') => {
                let hashes = rest[1..].chars().take_while(|char| *char == '#').count();
                let end = format!("\"{}", "#".repeat(hashes));
                rest[hashes + 2..].find(&end).map_or(rest.len(), |at| at + hashes + 2 + end.len())
            }
            '\'' if rest.starts_with("'\"'") => 3,
            _ => {
                code.push(char);
                continue;
            }
        };
        while chars.peek().is_some_and(|(next, _)| *next < at + skipped) {
            chars.next();
        }
    }
    code
}

fn is_raw(text: &str) -> bool {
    text[1..].trim_start_matches('#').starts_with('"')
}

/// The bytes of the literal that `text` begins with.
fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, char) in text.char_indices().skip(1) {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Every path in the code that begins with `crate`, `self` or `super`.
fn paths_in(code: &str) -> Vec<Module> {
    let mut paths = Vec::new();
    for start in ["crate::", "self::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|before| before.is_alphanumeric() || before == '_' || before == ':' || before == '$')
            {
                continue;
            }
            let mut found = Vec::new();
            read_tree(&code[at..], &Vec::new(), &mut found);
            paths.extend(found.into_iter().map(|(path, _)| path));
        }
    }
    paths
}

/// Reads `a::{b, c::d as e}` into its paths, each with its other name; answers what was read of the text.
fn read_tree(text: &str, before: &Module, paths: &mut Vec<(Module, Option<String>)>) -> usize {
    let mut path = before.clone();
    let mut at = 0;
    loop {
        at += blank(&text[at..]);
        if text[at..].starts_with('{') {
            at += 1;
            loop {
                at += blank(&text[at..]);
                match text[at..].chars().next() {
                    Some('}') => return at + 1,
                    Some(',') => at += 1,
                    Some(_) => match read_tree(&text[at..], &path, paths) {
                        0 => return text.len(),
                        read => at += read,
                    },
                    None => return at,
                }
            }
        }
        let name: String = text[at..].chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect();
        at += name.len();
        if name.is_empty() {
            at += usize::from(text[at..].starts_with('*'));
            paths.push((path, None));
            return at;
        }
        path.push(name);
        if text[at..].starts_with("::") {
            at += 2;
            continue;
        }
        let rest = &text[at + blank(&text[at..])..];
        let alias = rest.strip_prefix("as ").map(|rest| rest.trim_start());
        let alias = alias.map(|rest| rest.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect());
        if let Some(alias) = alias {
            let alias: String = alias;
            at += text[at..].find(&alias).map_or(0, |found| found + alias.len());
            paths.push((path, Some(alias)));
        } else {
            paths.push((path, None));
        }
        return at;
    }
}

fn blank(text: &str) -> usize {
    text.len() - text.trim_start().len()
}
