//! Back-filling: events of any age from a file of JSON lines.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail};
use billing_domain::event::{Event, Ingested};
use billing_domain::id::OrganizationId;
use billing_domain::store::{EventIngest, Window};
use flate2::read::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressStyle};

use crate::json::scan;
use crate::track::read_event;

/// Events handed over at once.
const BATCH: usize = 5_000;
/// Longest line, in bytes.
const LINE_BYTES_MAX: u64 = 1024 * 1024;
/// Bad lines named in the log; more are only counted.
const NAMED_MAX: u64 = 20;

/// What became of the lines of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Events that are new.
    pub stored: u64,
    /// Events that had been stored before.
    pub duplicates: u64,
    /// Lines that are no events; the log says why.
    pub rejected: u64,
}

/// Takes in every event of a file, gzipped or not. Doing it again changes nothing.
///
/// # Errors
/// When the file cannot be read, or the store fails; what was taken in stays.
pub fn import_events(ingest: &dyn EventIngest, organization: OrganizationId, path: &Path) -> anyhow::Result<Imported> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let progress = progress_bar(file.metadata()?.len());
    let mut lines = Lines::new(Box::new(progress.wrap_read(file)))?;
    let mut imported = Imported::default();
    let mut batch: Vec<Event> = Vec::with_capacity(BATCH);
    while let Some(line) = lines.next_line()? {
        if line.trim().is_empty() {
            continue;
        }
        match read_line(&line) {
            Ok(event) => batch.push(event),
            Err(reason) => {
                imported.rejected += 1;
                if imported.rejected <= NAMED_MAX {
                    progress.suspend(|| log::warn!("line {}: {reason}", lines.number));
                }
            }
        }
        if batch.len() == BATCH {
            imported.take_in(ingest, organization, &mut batch)?;
        }
    }
    imported.take_in(ingest, organization, &mut batch)?;
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
        let outcomes = ingest.ingest(organization, batch, Window::Open);
        for outcome in outcomes.context("the events up to here are stored; run it again to go on")? {
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

fn read_line(line: &str) -> Result<Event, &'static str> {
    scan(line).map_err(|fault| fault.code().meaning)?;
    read_event(line).map_err(|rejected| rejected.reason)
}

/// The lines of a file, decompressed, of bounded length.
struct Lines {
    reader: Box<dyn BufRead>,
    number: u64,
}

impl Lines {
    fn new(file: Box<dyn Read>) -> anyhow::Result<Self> {
        let mut buffered = BufReader::new(file);
        let is_gzip = buffered.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        let reader: Box<dyn BufRead> = match is_gzip {
            true => Box::new(BufReader::new(MultiGzDecoder::new(buffered))),
            false => Box::new(buffered),
        };
        Ok(Self { reader, number: 0 })
    }

    fn next_line(&mut self) -> anyhow::Result<Option<String>> {
        self.number += 1;
        let mut line = Vec::new();
        self.reader.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        if line.len() as u64 > LINE_BYTES_MAX {
            bail!("line {} is longer than {LINE_BYTES_MAX} bytes", self.number);
        }
        // A line that is not UTF-8 is no event; the replacement characters keep it from being one by accident.
        Ok(Some(
            String::from_utf8(line)
                .unwrap_or_else(|error| format!("\u{fffd}{}", String::from_utf8_lossy(error.as_bytes()))),
        ))
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
