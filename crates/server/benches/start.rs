//! What starting a program through the spawner costs, compared with a bare loop that starts the same one
//! with `posix_spawn` and waits for it. In both cases its output comes through a pipe and is read to its
//! end.
//!
//!     cargo bench -p taipan --bench start -- [PROGRAM]
//!
//! The two take turns. CPU is that of this process, the spawner's thread among it, and of all that were
//! started. Knows nothing of HTTP.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, posix_spawn};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::sys::wait::waitpid;
use rustix::pipe::{PipeFlags, pipe_with};
use server::process::ipc::Channel;
use server::spawner::groups::{self, Settings};
use server::spawner::message::block;
use server::spawner::{Exit, SpawnRequest, Spawner, Streams};
use site::model::{Log, Resources, Scripts};
use tokio::runtime::{Builder, LocalRuntime};
use tokio::sync::mpsc::unbounded_channel;

const ROUNDS: usize = 15;
const STARTS: usize = 400;
const TOGETHER: [usize; 2] = [1, 10];
const ENVIRONMENT: usize = 30;

fn main() -> io::Result<()> {
    let program = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    let program = CString::new(program.unwrap_or_else(|| "/bin/true".to_owned()))?;
    let bare = Bare::new(&program);
    for together in TOGETHER {
        let (mut cpu, mut time, mut costs) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            // Each round begins with the other one.
            let (one, other) = match round % 2 {
                0 => (bare.measure(together)?, measure_spawner(&bare, together)?),
                _ => {
                    let spawner = measure_spawner(&bare, together)?;
                    (bare.measure(together)?, spawner)
                }
            };
            cpu.push(other.cpu.as_secs_f64() / one.cpu.as_secs_f64());
            time.push(other.time.as_secs_f64() / one.time.as_secs_f64());
            costs.push((one.cpu.as_secs_f64() * 1e6, other.cpu.as_secs_f64() * 1e6));
        }
        costs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (bare, spawner) = costs[ROUNDS / 2];
        println!(
            "{} at a time: CPU {:.3} x bare ({spawner:.0} µs, {bare:.0} µs), time {:.3} x; CPU ratios {:.3}..{:.3}",
            together,
            median(&mut cpu),
            median(&mut time),
            cpu[0],
            cpu[ROUNDS - 1],
        );
    }
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Of one start.
struct Cost {
    cpu: Duration,
    time: Duration,
}

struct Meter {
    began: Instant,
    cpu: Duration,
}

impl Meter {
    fn start() -> io::Result<Meter> {
        Ok(Meter { began: Instant::now(), cpu: cpu()? })
    }

    fn stop(self) -> io::Result<Cost> {
        let starts = STARTS as u32;
        Ok(Cost { cpu: (cpu()? - self.cpu) / starts, time: self.began.elapsed() / starts })
    }
}

fn cpu() -> io::Result<Duration> {
    let sum = |usage: Usage| usage.user_time() + usage.system_time();
    let both = sum(getrusage(UsageWho::RUSAGE_SELF)?) + sum(getrusage(UsageWho::RUSAGE_CHILDREN)?);
    Ok(Duration::from_micros(both.num_microseconds() as u64))
}

struct Bare {
    program: CString,
    environment: Vec<CString>,
    /// The same.
    block: Vec<u8>,
}

impl Bare {
    fn new(program: &CStr) -> Bare {
        let variable = |n| format!("VARIABLE_{n}=a value of the usual length");
        let variables: Vec<String> = (0..ENVIRONMENT).map(variable).collect();
        let block = variables.iter().flat_map(|text| [text.as_bytes(), b"\0"].concat()).collect();
        let environment = variables.into_iter().filter_map(|text| CString::new(text).ok()).collect();
        Bare { program: program.to_owned(), environment, block }
    }

    fn measure(&self, together: usize) -> io::Result<Cost> {
        let nothing = File::open("/dev/null")?;
        let attributes = PosixSpawnAttr::init()?;
        let meter = Meter::start()?;
        for _ in 0..STARTS / together {
            let mut started = Vec::with_capacity(together);
            for _ in 0..together {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
                let mut actions = PosixSpawnFileActions::init()?;
                actions.add_dup2(nothing.as_raw_fd(), 0)?;
                actions.add_dup2(write.as_raw_fd(), 1)?;
                let arguments = [self.program.as_c_str()];
                let pid = posix_spawn(
                    self.program.as_c_str(),
                    &actions,
                    &attributes,
                    &arguments,
                    &self.environment,
                )?;
                started.push((pid, read));
            }
            for (pid, read) in started {
                drain(read)?;
                waitpid(pid, None)?;
            }
        }
        meter.stop()
    }
}

fn measure_spawner(bare: &Bare, together: usize) -> io::Result<Cost> {
    let runtime: LocalRuntime = Builder::new_current_thread().enable_io().build_local(Default::default())?;
    let (ours, theirs) = Channel::pair()?;
    let resources = Resources::default();
    let settings = Settings { resources, ..Settings::of(&Scripts::default(), &Log::default()) };
    let thread = std::thread::spawn(move || groups::serve(theirs, settings, None, None));
    let cost = runtime.block_on(async {
        let spawner = Spawner::new(ours, None)?;
        tokio::task::spawn_local(spawner.clone().receive_events());
        let nothing: OwnedFd = File::open("/dev/null")?.into();
        let arguments = block([&*bare.program]);
        let meter = Meter::start()?;
        for _ in 0..STARTS / together {
            let (tell, mut told) = unbounded_channel();
            for _ in 0..together {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
                let request = SpawnRequest {
                    program: &bare.program,
                    arguments: &arguments,
                    environment: &bare.block,
                    folder: c"/",
                    account: c"",
                };
                let stderr = nothing.try_clone()?;
                let streams = Streams { stdin: Some(nothing.try_clone()?), stdout: write, stderr };
                let mut child = spawner.start(request, streams).await?;
                let tell = tell.clone();
                tokio::task::spawn_local(async move {
                    let ended = child.wait().await;
                    _ = tell.send((ended, drain(read)));
                });
            }
            for _ in 0..together {
                match told.recv().await {
                    Some((Exit::Code(_), Ok(()))) => {}
                    other => return Err(io::Error::other(format!("{other:?}"))),
                }
            }
        }
        meter.stop()
    });
    drop(runtime);
    thread.join().map_err(|_| io::Error::other("the spawner has panicked"))??;
    cost
}

/// Programs that are measured write less than a pipe holds.
fn drain(pipe: OwnedFd) -> io::Result<()> {
    File::from(pipe).read_to_end(&mut Vec::new()).map(drop)
}
