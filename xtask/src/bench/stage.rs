//! What a benchmark plays on: a Postgres of its own with the durable settings, the release server, and, for comparison, a server that
//! does next to nothing.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use cargo_metadata::MetadataCommand;
use postgres_local::Cluster;

use super::load;
use crate::{cargo_command, repository};

/// The key of the first organization.
pub const KEY: &str = "benchkey.abcdefghijklmnopqrstuvwxyz012345";
const DATABASE: &str = "bench";
const PATIENCE: Duration = Duration::from_secs(30);

/// A server process, killed when dropped.
pub struct Process {
    child: Child,
    /// Where it listens.
    pub addr: SocketAddr,
}

impl Process {
    fn start(command: &mut Command, addr: SocketAddr, probe: &str) -> anyhow::Result<Self> {
        let child = command.stdout(Stdio::null()).spawn().with_context(|| format!("cannot start {command:?}"))?;
        let mut process = Self { child, addr };
        let start = Instant::now();
        while !load::call(addr, &load::get(probe, KEY)).is_ok_and(|(status, _)| status == 200) {
            if let Some(status) = process.child.try_wait()? {
                bail!("{command:?} ended with {status}");
            }
            if start.elapsed() > PATIENCE {
                bail!("{command:?} does not answer");
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(process)
    }

    /// What it has worked so far, in seconds of one processor.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn cpu_seconds(&self) -> anyhow::Result<f64> {
        let server = stat(self.child.id()).context("the server has gone")?;
        Ok(server.ticks as f64 / TICKS_PER_SECOND)
    }

    /// The most memory that it ever had in use, or since [`Process::forget_peak`], in MiB.
    pub fn peak_mib(&self) -> Option<u64> {
        status_mib(self.child.id(), "VmHWM:")
    }

    /// The memory that it has in use, in MiB.
    pub fn resident_mib(&self) -> Option<u64> {
        status_mib(self.child.id(), "VmRSS:")
    }

    /// Lets the peak begin anew.
    ///
    /// # Errors
    /// When the system does not let.
    pub fn forget_peak(&self) -> std::io::Result<()> {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5")
    }
}

/// A figure out of what the system tells of a process's memory, in MiB. `None`: it has gone.
fn status_mib(process: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib / 1024)
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// As the system counts what processes work.
const TICKS_PER_SECOND: f64 = 100.0;

/// What the system tells of a process.
struct Stat {
    parent: u32,
    ticks: u64,
    /// Of children that have ended.
    ticks_of_children: u64,
}

/// `None`: there is no such process.
fn stat(process: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind the name, which may have anything in it: state, parent and, from the twelfth on, four times.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Stat {
        parent: u32::try_from(number(1)?).ok()?,
        ticks: number(11)? + number(12)?,
        ticks_of_children: number(13)? + number(14)?,
    })
}

/// The processes that this one started.
fn children(parent: u32) -> anyhow::Result<impl Iterator<Item = (u32, Stat)>> {
    let processes = std::fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let of = move |process| stat(process).filter(|stat| stat.parent == parent).map(|stat| (process, stat));
    Ok(processes.filter_map(of))
}

/// Everything that runs during a benchmark. Fields are dropped in order: the server before its database.
pub struct Stage {
    /// The service.
    pub service: Process,
    url: String,
    /// Home first, then the nodes.
    clusters: Vec<Cluster>,
    folder: PathBuf,
    /// Where each cluster has its data.
    postgres_folders: Vec<PathBuf>,
    programs: PathBuf,
}

impl Stage {
    /// Builds what is needed with this cargo profile, or takes it from the folder that it names, and starts all of it.
    ///
    /// # Errors
    /// What does not build or start.
    pub fn set(profile: &str) -> anyhow::Result<Self> {
        let (programs, folder) = (build(profile)?, folder());
        let cluster = Cluster::persistent(&folder)?;
        cluster.create_database_if_absent(DATABASE)?;
        Self::serve(programs, folder, vec![cluster])
    }

    /// As [`Stage::set`], with customers in so many lanes on so many servers in turn, all of them on this machine and removed
    /// with it.
    ///
    /// # Errors
    /// What does not build, start or move.
    pub fn divided(profile: &str, lanes: u32, servers: usize) -> anyhow::Result<Self> {
        let (programs, folder) = (build(profile)?, folder());
        std::fs::create_dir_all(&folder)?;
        let clusters = (0..servers)
            .map(|_| {
                let cluster = Cluster::temporary_durable()?;
                cluster.create_database_if_absent(DATABASE)?;
                anyhow::Ok(cluster)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let run = |arguments: &[&str]| {
            let mut command = program(&programs, &clusters[0].url(DATABASE), &folder);
            let output = command.args(arguments).output()?;
            ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            Ok(())
        };
        run(&["--lanes", &lanes.to_string(), "migrate"])?;
        for (number, node) in clusters.iter().enumerate().skip(1) {
            let (name, host) = (node_name(number), socket_folder(&node.url(DATABASE))?);
            run(&["lanes", "add-node", &name, "--host", &host, "--database", DATABASE])?;
            for lane in (0..lanes).filter(|lane| *lane as usize % servers == number) {
                run(&["lanes", "move", &lane.to_string(), "--to", &name])?;
            }
        }
        Self::serve(programs, folder, clusters)
    }

    /// Starts the server over what has been prepared.
    fn serve(programs: PathBuf, folder: PathBuf, clusters: Vec<Cluster>) -> anyhow::Result<Self> {
        let url = clusters[0].url(DATABASE);
        let served = free_addr()?;
        let service = Process::start(
            program(&programs, &url, &folder)
                .args(["serve", "--addr", &served.to_string()])
                .env("BILLING_BOOTSTRAP_API_KEY", KEY)
                // Receivers are on this machine.
                .env("BILLING_WEBHOOKS_ALLOW_PRIVATE", "true"),
            served,
            "/api/ping/",
        )?;
        let data_directory = |cluster: &Cluster| {
            let psql = psql(&cluster.url(DATABASE)).args(["-c", "SHOW data_directory"]).spawn()?;
            Ok(PathBuf::from(finish(psql)?))
        };
        let postgres_folders = clusters.iter().map(data_directory).collect::<anyhow::Result<_>>()?;
        Ok(Self { service, url, clusters, folder, postgres_folders, programs })
    }

    /// Starts a server without logic over the same database: it answers a constant at `/constant`, and after one look-up by primary
    /// key at `/lookup`.
    ///
    /// # Errors
    /// When it does not start.
    pub fn baseline(&self) -> anyhow::Result<Process> {
        let addr = free_addr()?;
        let mut command = Command::new(self.programs.join("examples/baseline"));
        Process::start(command.args([&addr.to_string(), &self.url, KEY]), addr, "/lookup")
    }

    /// Runs an SQL script; what it prints, one value a line.
    ///
    /// # Errors
    /// What Postgres says.
    pub fn sql(&self, script: &str) -> anyhow::Result<String> {
        let mut psql = self.psql()?;
        psql.stdin.take().context("no input to psql")?.write_all(script.as_bytes())?;
        finish(psql)
    }

    /// Runs SQL scripts, each from its file on a connection of its own, all at once; how long that took.
    ///
    /// # Errors
    /// What Postgres says.
    pub fn sql_files(&self, files: &[PathBuf]) -> anyhow::Result<Duration> {
        let start = Instant::now();
        let run = |file: &Path| {
            let input = std::fs::File::open(file)?;
            finish(self.psql_command().stdin(input).spawn().context("cannot run psql")?)
        };
        thread::scope(|scope| {
            let threads: Vec<_> = files.iter().map(|file| scope.spawn(|| run(file))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic").map(drop))
        })?;
        Ok(start.elapsed())
    }

    /// What all processes of Postgres have worked so far, in seconds of one processor.
    ///
    /// # Errors
    /// What Postgres says, or when the system does not tell.
    pub fn postgres_cpu_seconds(&self) -> anyhow::Result<f64> {
        let mut ticks = 0;
        for postmaster in self.postmasters()? {
            let main = stat(postmaster).context("Postgres has gone")?;
            let of_children = children(postmaster)?.map(|(_, child)| child.ticks).sum::<u64>();
            ticks += main.ticks + main.ticks_of_children + of_children;
        }
        Ok(ticks as f64 / TICKS_PER_SECOND)
    }

    /// What each process of Postgres has of memory of its own, in MiB, without what they share.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn postgres_memory_mib(&self) -> anyhow::Result<Vec<(u32, u64)>> {
        let of = |(process, _)| Some((process, status_mib(process, "RssAnon:")?));
        let mut all = Vec::new();
        for postmaster in self.postmasters()? {
            all.extend(children(postmaster)?.filter_map(of));
        }
        Ok(all)
    }

    fn postmasters(&self) -> anyhow::Result<Vec<u32>> {
        let of = |folder: &PathBuf| {
            let pid_file = std::fs::read_to_string(folder.join("postmaster.pid"))?;
            Ok(pid_file.lines().next().context("an empty postmaster.pid")?.trim().parse()?)
        };
        self.postgres_folders.iter().map(of).collect()
    }

    /// The program itself, for a command beside the service.
    pub fn program(&self) -> Command {
        program(&self.programs, &self.url, &self.folder)
    }

    /// A folder for files that go away with the stage.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn psql(&self) -> anyhow::Result<Child> {
        self.psql_command().stdin(Stdio::piped()).spawn().context("cannot run psql")
    }

    fn psql_command(&self) -> Command {
        psql(&self.url)
    }

    /// Stops everything and removes the data.
    ///
    /// # Errors
    /// When Postgres does not stop.
    pub fn clear(self) -> anyhow::Result<()> {
        let Self { service, clusters, folder, .. } = self;
        drop(service);
        clusters.into_iter().try_for_each(Cluster::stop)?;
        std::fs::remove_dir_all(folder).context("the data of the benchmark stays")
    }
}

/// A folder that no other stage has.
fn folder() -> PathBuf {
    static STAGES: AtomicU32 = AtomicU32::new(0);
    let number = STAGES.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("billing-bench-{}-{number}", std::process::id()))
}

/// The program itself over a database.
fn program(programs: &Path, url: &str, folder: &Path) -> Command {
    let mut command = Command::new(programs.join("billing-http"));
    command.env("DATABASE_URL", url).env("BILLING_DATA_DIR", folder).env("RUST_LOG", "warn");
    command
}

fn psql(url: &str) -> Command {
    let mut command = Command::new("psql");
    command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", url]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn node_name(number: usize) -> String {
    format!("node{number}")
}

/// The folder of a server's socket, by which it is called like a host.
fn socket_folder(url: &str) -> anyhow::Result<String> {
    let host = url.split(['?', '&']).find_map(|part| part.strip_prefix("host="));
    Ok(host.context("a server without a socket")?.replace("%2F", "/"))
}

fn finish(psql: Child) -> anyhow::Result<String> {
    let output = psql.wait_with_output()?;
    if !output.status.success() {
        bail!("psql: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn free_addr() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// The folder of the programs, built with this profile; a path is that of programs that are there already.
fn build(profile: &str) -> anyhow::Result<PathBuf> {
    if profile.contains('/') {
        return Ok(profile.into());
    }
    let arguments =
        ["build", "--profile", profile, "-p", "billing-http", "--bin", "billing-http", "--example", "baseline"];
    let status = cargo_command().args(arguments).status()?;
    if !status.success() {
        bail!("the programs do not build");
    }
    let metadata = MetadataCommand::new().current_dir(repository()).no_deps().exec()?;
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(metadata.target_directory.join(folder).into())
}
