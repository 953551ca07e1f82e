//! Back-filling: events of any age from a file.
//!
//! It may go on beside a service at work, which then holds what an import needs, and the other way round. What is refused for
//! the time being is tried again, later and later: a file of a million events must not end at the first moment in which
//! somebody else was faster.

mod array;
mod csv;
mod form;
mod lines;
mod place;
mod record;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use billing_domain::event::{Event, Ingested};
use billing_domain::id::OrganizationId;
use billing_domain::store::{EventIngest, Window};
use billing_domain::{Error, StoreError};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

pub use form::EventForm;
use form::Records;
use record::Record;

/// Events handed over at once.
const BATCH: usize = 5_000;
/// How often a batch that is refused for the time being is tried again. With the pauses between that is about three minutes.
const RETRIES_MAX: u32 = 20;
/// The pause before the first time; each one after it is twice as long as the one before.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// No pause is longer.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Where events are imported from, and where what is refused of them goes.
#[derive(Clone, Debug)]
pub struct ImportSource {
    /// Gzipped or not.
    pub file: PathBuf,
    /// How its events are written; `None`: its name says it, and one object stands on each line where it does not.
    pub form: Option<EventForm>,
    /// The first line that is looked at, from 1: what begins before it is passed over.
    pub from_line: u64,
    /// JSON lines of `line`, `reason` and `text`; made when the first line is refused. An import that goes on behind the
    /// first line adds to what is there.
    pub refused: PathBuf,
}

impl ImportSource {
    /// All of a file.
    pub fn whole(file: &Path) -> Self {
        Self { refused: refused_beside(file), file: file.to_owned(), form: None, from_line: 1 }
    }
}

/// Where refused lines go unless said otherwise: `events.jsonl.refused`.
pub fn refused_beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".refused");
    name.into()
}

/// What became of the records of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Events that are new.
    pub stored: u64,
    /// Events that had been stored before, also by a try that was refused half way.
    pub duplicates: u64,
    /// Records that are no events; the report says why.
    pub rejected: u64,
}

/// Takes in every event of a file, gzipped or not. Doing it again changes nothing.
///
/// # Errors
/// When the file cannot be read, or the store fails, for long if that may pass; what was taken in stays, and the error says from
/// which line to go on.
pub fn import_events(
    ingest: &dyn EventIngest,
    organization: OrganizationId,
    source: &ImportSource,
) -> anyhow::Result<Imported> {
    let path = &source.file;
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let progress = progress_bar(file.metadata()?.len());
    let records = Records::of(progress.wrap_read(file), path, source.form);
    let mut records = records.with_context(|| format!("cannot read {}", path.display()))?;
    let mut imported = Imported::default();
    let mut report = Report::new(source);
    // The line from which on not all is stored yet.
    let mut open_line = source.from_line;
    let mut last_line = source.from_line;
    let mut batch: Vec<Event> = Vec::with_capacity(BATCH);
    loop {
        let record = records.next_record();
        let is_over = !matches!(record, Ok(Some(_)));
        if batch.len() == BATCH || is_over {
            imported.take_in(ingest, organization, &mut batch).with_context(|| go_on_from(open_line))?;
            report.flush()?;
            open_line = last_line;
        }
        let Some(Record { line, text, event }) = record.with_context(|| go_on_from(open_line))? else { break };
        if line < source.from_line {
            continue;
        }
        if batch.is_empty() {
            open_line = line;
        }
        last_line = line;
        match event {
            Ok(event) => batch.push(event),
            Err(reason) => {
                imported.rejected += 1;
                report.refuse(line, &reason, &text)?;
            }
        }
    }
    progress.finish_and_clear();
    Ok(imported)
}

impl Imported {
    fn take_in(
        &mut self,
        ingest: &dyn EventIngest,
        organization: OrganizationId,
        batch: &mut Vec<Event>,
    ) -> anyhow::Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        for outcome in store_patiently(ingest, organization, batch)? {
            match outcome {
                Ingested::Stored => self.stored += 1,
                Ingested::Duplicate => self.duplicates += 1,
                Ingested::OutsideWindow => self.rejected += 1,
            }
        }
        batch.clear();
        Ok(())
    }
}

/// Stores a batch, again and again while it is refused for reasons that pass. Doing it twice changes nothing.
fn store_patiently(
    ingest: &dyn EventIngest,
    organization: OrganizationId,
    batch: &[Event],
) -> Result<Vec<Ingested>, Error> {
    let (mut pause, mut retries) = (PAUSE_MIN, 0);
    loop {
        match ingest.ingest(organization, batch, Window::Open) {
            Err(Error::Store(error)) if passes(&error) && retries < RETRIES_MAX => {
                log::warn!("{error}; the same {} events are tried again in {} ms", batch.len(), pause.as_millis());
                thread::sleep(pause);
                (pause, retries) = (PAUSE_MAX.min(pause * 2), retries + 1);
            }
            outcome => return outcome,
        }
    }
}

/// Whether it may be over when the same is tried again.
fn passes(error: &StoreError) -> bool {
    use StoreError::{DeadlineExceeded, LockTimeout, Overloaded, PoolExhausted, Unavailable};
    matches!(error, DeadlineExceeded | LockTimeout | Overloaded | PoolExhausted | Unavailable(_))
}

fn go_on_from(line: u64) -> String {
    format!("all before line {line} is stored; go on with --from-line {line}")
}

/// The lines that were refused, for those who mend them.
struct Report<'s> {
    source: &'s ImportSource,
    file: Option<BufWriter<File>>,
}

impl<'s> Report<'s> {
    fn new(source: &'s ImportSource) -> Self {
        Self { source, file: None }
    }

    fn refuse(&mut self, line: u64, reason: &str, text: &str) -> anyhow::Result<()> {
        let entry = json!({"line": line, "reason": reason, "text": text.trim_end()});
        Ok(writeln!(self.file()?, "{entry}")?)
    }

    fn file(&mut self) -> anyhow::Result<&mut BufWriter<File>> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let path = &self.source.refused;
                let goes_on = self.source.from_line > 1;
                let opened = File::options().create(true).write(true).append(goes_on).truncate(!goes_on).open(path);
                BufWriter::new(opened.with_context(|| format!("cannot write {}", path.display()))?)
            }
        };
        Ok(self.file.insert(file))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

fn progress_bar(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
    let bar = ProgressBar::new(bytes);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
