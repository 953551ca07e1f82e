//! House rules that a machine can check. Each rule is a function from a file to its complaints, with a test that it
//! finds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::modules;

const LINES_MAX: usize = 600;
const LINES_WISHED_MAX: usize = 400;

/// Beside files and folders whose name starts with a dot.
const TOP_LEVEL: [&str; 7] = ["Cargo.toml", "Cargo.lock", "crates", "migrations", "xtask", "docs", "README.md"];

/// The build's output, wherever it appears.
const NOT_OURS: [&str; 2] = ["target", ".git"];

/// Every text file of the repository, by its path from the top.
pub struct Files(BTreeMap<PathBuf, String>);

type Rule = fn(&Path, &str) -> Vec<String>;

const RULES: [Rule; 7] = [
    forbids_unsafe_code,
    is_finished,
    is_not_too_long,
    is_free_of_floats,
    binds_parameters,
    names_no_home,
    speaks_the_glossary,
];

/// Words that nothing is called by any more, each with the standard term that took its place: see docs/glossary.md.
const RETIRED: [(&str, &str); 18] = [
    ("desk", "batcher"),
    ("clerk", "worker"),
    ("employ", "spawn_workers"),
    ("hasty", "without_timeout"),
    ("patient", "with_timeout"),
    ("relief", "second_worker_delay"),
    ("glimpse", "answer_from_cache"),
    ("holdings", "subscription_cache"),
    ("calm", "no_future_events"),
    ("stamp", "version"),
    ("epoch", "version"),
    ("ragged", "partial_hour"),
    ("wary", "cooldown"),
    ("wariness", "cooldown"),
    ("unwritten", "write_buffer"),
    ("asker", "requester"),
    ("recall", "from_cache, restore, get_even_deleted"),
    ("gain", "delta"),
];

impl Files {
    pub fn read(repository: &Path) -> anyhow::Result<Self> {
        let mut files = BTreeMap::new();
        collect(repository, repository, &mut files).with_context(|| repository.display().to_string())?;
        Ok(Self(files))
    }

    /// Every breach, as `path: what is wrong`.
    pub fn problems(&self) -> Vec<String> {
        let of_file = |(path, text): (&PathBuf, &String)| {
            let complaints = RULES.iter().flat_map(|rule| rule(path, text)).collect::<Vec<_>>();
            complaints.into_iter().map(|complaint| format!("{}: {complaint}", path.display())).collect::<Vec<_>>()
        };
        let mut problems: Vec<String> = self.0.iter().flat_map(of_file).collect();
        problems.extend(self.top_level_problems());
        problems.extend(self.migration_problems());
        problems.extend(self.link_problems());
        problems.extend(self.workflow_problems());
        problems.extend(self.licence_problems());
        problems
    }

    /// The files under a folder, by their paths in it.
    pub fn under<'f>(&'f self, folder: &'f Path) -> impl Iterator<Item = (&'f Path, &'f str)> {
        self.0.iter().filter_map(move |(path, text)| Some((path.strip_prefix(folder).ok()?, text.as_str())))
    }

    /// What a reader would like better, but nobody is stopped by.
    pub fn wishes(&self) -> Vec<String> {
        let long = self.0.iter().filter(|(path, text)| is_code(path) && text.lines().count() > LINES_WISHED_MAX);
        long.map(|(path, text)| format!("long: {} has {} lines", path.display(), text.lines().count())).collect()
    }

    fn top_level_problems(&self) -> Vec<String> {
        let mut names: Vec<_> = self.0.keys().filter_map(|path| path.iter().next()?.to_str()).collect();
        names.dedup();
        names.retain(|name| !name.starts_with('.') && !TOP_LEVEL.contains(name));
        names.into_iter().map(|name| format!("{name}: does not belong at the top of the repository")).collect()
    }

    fn migration_problems(&self) -> Vec<String> {
        let scripts = self.0.keys().filter(|path| path.starts_with("migrations") && !is_markdown(path));
        let mut folders: Vec<_> = scripts.filter_map(|path| path.parent()).collect();
        folders.dedup();
        let wanted = folders.into_iter().flat_map(|folder| [folder.join("up.sql"), folder.join("down.sql")]);
        let missing = wanted.filter(|path| !self.0.contains_key(path));
        missing.map(|path| format!("{}: every migration goes up and down", path.display())).collect()
    }

    fn link_problems(&self) -> Vec<String> {
        let documents = self.0.iter().filter(|(path, _)| is_markdown(path));
        let broken = documents.flat_map(|(path, text)| {
            let links = links(text).into_iter().map(move |link| (path, link));
            links.filter(|(path, link)| !self.contains(&resolve(path, link)))
        });
        broken.map(|(path, link)| format!("{}: the link `{link}` leads nowhere", path.display())).collect()
    }

    /// A workflow is found by its file name: `workflow/cancel_subscription.rs` has `pub fn cancel_subscription`.
    fn workflow_problems(&self) -> Vec<String> {
        let folder = Path::new("crates/billing-domain/src/workflow");
        let list = self.0.get(&folder.join("mod.rs")).map_or("", String::as_str);
        let in_folder = self.0.iter().filter(|(path, _)| path.parent() == Some(folder) && is_code(path));
        in_folder
            .filter_map(|(path, text)| Some((path, text, path.file_stem()?.to_str()?)))
            .filter(|(_, _, name)| {
                list.contains(&format!("pub mod {name};")) || list.contains(&format!("pub use {name}::"))
            })
            .filter(|(_, text, name)| {
                !text.contains(&format!("pub fn {name}(")) && !text.contains(&format!("pub fn {name}<"))
            })
            .map(|(path, _, name)| format!("{}: has no `pub fn {name}`", path.display()))
            .collect()
    }

    /// What is packed of a crate has the licences' texts beside it: the same as in `docs`.
    fn licence_problems(&self) -> Vec<String> {
        let copies = self.0.iter().filter(|(path, _)| path.starts_with("crates"));
        copies
            .filter_map(|(path, text)| Some((path, text, path.file_name()?)))
            .filter(|(_, _, name)| name.to_string_lossy().starts_with("LICENSE-"))
            .filter(|(_, text, name)| self.0.get(&Path::new("docs").join(name)) != Some(text))
            .map(|(path, ..)| format!("{}: differs from its original in docs", path.display()))
            .collect()
    }

    fn contains(&self, path: &Path) -> bool {
        self.0.keys().any(|known| known.starts_with(path))
    }
}

fn collect(top: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if NOT_OURS.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if path.is_dir() {
            collect(top, &path, files)?;
        } else {
            let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
            files.insert(path.strip_prefix(top)?.to_owned(), text);
        }
    }
    Ok(())
}

fn is_code(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

fn forbids_unsafe_code(path: &Path, text: &str) -> Vec<String> {
    let is_root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    let complaint = is_root && !text.starts_with("#![forbid(unsafe_code)]");
    complaint.then(|| "must start with #![forbid(unsafe_code)]".to_owned()).into_iter().collect()
}

fn is_finished(path: &Path, text: &str) -> Vec<String> {
    // Without the exclamation mark, so that this list is not found.
    let marks = ["todo", "unimplemented", "dbg"].map(|name| format!("{name}!("));
    let found = marks.iter().filter(|mark| is_code(path) && code_lines(text).any(|line| line.contains(*mark)));
    found.map(|mark| format!("`{mark}..)` is left")).collect()
}

fn is_not_too_long(path: &Path, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    let complaint = is_code(path) && lines > LINES_MAX;
    complaint.then(|| format!("{lines} lines are more than {LINES_MAX}")).into_iter().collect()
}

fn is_free_of_floats(path: &Path, text: &str) -> Vec<String> {
    if !path.starts_with("crates/billing-domain/src") {
        return Vec::new();
    }
    let words = code_lines(text).flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let mut found: Vec<&str> = words.filter(|word| ["f32", "f64"].contains(word)).collect();
    found.dedup();
    found.into_iter().map(|word| format!("`{word}`: money and quantities are exact")).collect()
}

/// A statement that is put together from text is an injection waiting to happen.
fn binds_parameters(path: &Path, text: &str) -> Vec<String> {
    // In two pieces, so that this line is not found.
    let call = concat!("sql_query", "(");
    let arguments = text.split(call).skip(1).map(until_closed);
    let complaint = is_code(path) && arguments.into_iter().any(|argument| argument.contains("format!"));
    complaint.then(|| "SQL is constant: bind values instead of formatting them in".to_owned()).into_iter().collect()
}

/// The argument list at the start of `text`, whose opening parenthesis is just before.
fn until_closed(text: &str) -> &str {
    let mut depth = 1;
    let end = text.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    &text[..end.unwrap_or(text.len())]
}

fn names_no_home(path: &Path, text: &str) -> Vec<String> {
    let homes = ["/home/", "/Users/", "/root/"];
    let found = homes.iter().filter(|home| is_markdown(path) && text.contains(*home));
    found.map(|home| format!("`{home}..` is a folder of one machine")).collect()
}

/// Lines without comments of their own: what the rules are about may well be talked about.
fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

/// Targets of `[text](target)` that are files, without their anchors; code is no link.
fn links(markdown: &str) -> Vec<&str> {
    let prose = markdown.split("```").step_by(2);
    let targets = prose.flat_map(|prose| prose.split("](").skip(1)).filter_map(|rest| rest.split([')', ' ']).next());
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    files.filter_map(|target| target.split('#').next()).filter(|file| !file.is_empty()).collect()
}

/// `../x` seen from `docs/page.md` is `x`.
fn resolve(document: &Path, link: &str) -> PathBuf {
    let mut resolved = document.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(link) {
        match part.to_str() {
            Some("..") => drop(resolved.pop()),
            Some(".") => {}
            _ => resolved.push(part),
        }
    }
    resolved
}

/// No identifier has a retired word in it.
fn speaks_the_glossary(path: &Path, text: &str) -> Vec<String> {
    if !is_code(path) {
        return Vec::new();
    }
    let code = modules::code_of(text);
    let identifiers: BTreeSet<&str> =
        code.split(|char: char| !char.is_alphanumeric() && char != '_').filter(|name| !name.is_empty()).collect();
    let mut complaints = Vec::new();
    for identifier in identifiers.into_iter().filter(|name| *name != "UNIX_EPOCH") {
        let retired = RETIRED.iter().find(|(word, _)| words_of(identifier).any(|part| part == *word));
        complaints.extend(retired.map(|(word, term)| format!("`{identifier}`: instead of `{word}` we say {term}")));
    }
    complaints
}

/// The words of an identifier in snake or camel case, in lower case.
fn words_of(identifier: &str) -> impl Iterator<Item = String> {
    let mut spaced = String::with_capacity(identifier.len() + 4);
    for char in identifier.chars() {
        if char.is_uppercase() && spaced.ends_with(char::is_lowercase) {
            spaced.push('_');
        }
        spaced.push(char);
    }
    spaced.split('_').map(str::to_lowercase).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository;

    #[test]
    fn the_repository_is_tidy() {
        let problems = Files::read(&repository()).unwrap().problems();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    /// What finds nothing proves something only if it can find.
    #[test]
    fn every_rule_finds() {
        const DOMAIN: &str = "crates/billing-domain/src/money.rs";
        const STORE: &str = "crates/billing-store/src/repo/plan.rs";
        let unfinished = format!("fn f() {{ {}!() }}", "todo");
        let formatted = format!("{}(format!(\"{{x}}\"))", "sql_query");
        let bound = format!("{}(\"$1\").bind(format!(\"{{x}}\"))", "sql_query");
        let long = "\n".repeat(LINES_MAX + 1);
        #[rustfmt::skip]
        let cases = [
            // path,              text,                          complaints, why
            ("crates/a/src/lib.rs", "//! A crate.",              1, "unsafe code is not forbidden"),
            ("crates/a/src/lib.rs", "#![forbid(unsafe_code)]\n", 0, "it is"),
            (STORE,               unfinished.as_str(),           1, "something is left to do"),
            (STORE,               long.as_str(),                 1, "too long"),
            (DOMAIN,              "let a: f64 = 1.0;",           1, "a float"),
            (DOMAIN,              "/// Never f64.",              0, "only talk of floats"),
            (DOMAIN,              "let elf64 = 1;",              0, "part of a name"),
            (STORE,               "let a: f64 = 1.0;",           0, "a float outside the domain"),
            (STORE,               formatted.as_str(),            1, "SQL put together"),
            (STORE,               bound.as_str(),                0, "a value put together, and bound"),
            ("docs/a.md",         "see /home/me/x",              1, "somebody's folder"),
            ("docs/a.md",         "see [b](b.md#x)",             1, "a broken link"),
            ("docs/a.md",         "[a](../docs/a.md) [b](#b) [c](https://c.d)", 0, "links that are good or not ours"),
            ("notes.txt",         "",                            1, "clutter at the top"),
            ("crates/a/src/a.rs", "struct OpenDesk; // a clerk",  1, "a retired word, but not in a comment"),
            ("crates/a/src/a.rs", "fn seconds_of_epochs() {}",    0, "another word"),
            ("migrations/a/1_b/up.sql", "",                      1, "no way down"),
            ("migrations/README.md", "",                         0, "no migration"),
            ("crates/a/LICENSE-MIT", "MIT",                      1, "a licence without its original"),
        ];
        for (path, text, complaints, why) in cases {
            let files = Files(BTreeMap::from([(path.into(), text.to_owned())]));
            assert_eq!(files.problems().len(), complaints, "{why}: {:?}", files.problems());
        }
    }

    #[test]
    fn a_workflow_has_its_file_name() {
        let file = |name: &str| PathBuf::from(format!("crates/billing-domain/src/workflow/{name}.rs"));
        let list = (file("mod"), "pub mod renew;\nmod private;\n".to_owned());
        let private = (file("private"), "fn other() {}".to_owned());
        let named = Files([list.clone(), private.clone(), (file("renew"), "pub fn renew(".to_owned())].into());
        assert_eq!(named.problems(), [""; 0]);
        let misnamed = Files([list, private, (file("renew"), "pub fn extend(".to_owned())].into());
        assert_eq!(misnamed.problems().len(), 1);
    }

    #[test]
    fn long_files_are_wished_shorter() {
        let files = Files(BTreeMap::from([("a.rs".into(), "\n".repeat(LINES_WISHED_MAX + 1))]));
        assert_eq!(files.wishes().len(), 1);
    }
}
