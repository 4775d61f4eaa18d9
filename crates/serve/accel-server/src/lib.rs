//! The accelerator server: several processes share accelerators, and the critical chain's
//! request goes first (document: PAAM, sections IV-A to IV-E).
//!
//! Path of one request:
//!
//! 1. `control`, `access`, `register`: a client connects, is recognised by the kernel's
//!    word, and registers its callbacks with their memory, if `admission` finds that every chain
//!    that was promised its deadline keeps it.
//! 2. `inbox`: the client rings its doorbell; the request is taken from its ring.
//! 3. `dispatch`: the request is checked and queued in its `bucket`; a free lane of the
//!    `accelerator` launches it.
//! 4. The device's event comes back to `dispatch`, which launches the next request and then
//!    answers the client through its `session`.
//!
//! [`Server::start`] runs all of it on threads of the calling process:
//!
//! ```
//! let system = system::System::parse("accelerators: [{id: gpu0, buckets: 6}]", "doc.yaml")?;
//! let socket = std::env::temp_dir().join(format!("keeptime-doc-{}.sock", std::process::id()));
//! let options = accel_server::Options { socket: Some(socket.clone()), ..Default::default() };
//! let server = accel_server::Server::start(&system, options)?;
//!
//! let mut client = accel::Client::connect(&socket)?;
//! let nothing = client.register(&accel::Registration::service("empty").chain("demo", 1))?;
//! client.run(nothing, &accel::Request::new())?;
//! assert_eq!(server.counters().done, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accelerator;
mod access;
mod admission;
mod bucket;
mod budget;
mod calibration;
mod control;
mod devices;
mod dispatch;
mod error;
mod holder;
mod inbox;
mod journal;
mod meter;
mod peer;
mod placement;
mod refusal;
mod register;
mod seeker;
mod session;

pub use admission::short_time;
pub use calibration::{Calibration, Distribution, MAX_MARGIN, Occupancy, Overheads, ServiceTimes};
pub use device_cuda::HostProgram as GpuHost;
pub use error::Error;

use accel::control::Counters;
use accelerator::Accelerator;
use access::Access;
use admission::{Admission, File, Rules};
use control::{Control, Facts, NewRules, Settings};
use device::{Device, Observer, OperationOutcome};
use dispatch::Dispatcher;
use inbox::Inbox;
use journal::Journal;
pub use log::Level;
use realtime::awake;
use realtime::thread::Scheduling;
use register::Services;
use seeker::Seeker;
use shm::door::{ServiceSocket, SocketFile};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use system::{Admission as Mode, ArbitrationPolicy, Bound, Overrun, System};

/// Function that takes the server's messages, one line each.
pub type Log = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// Options of the command line; several of them override the configuration.
#[derive(Clone)]
pub struct Options {
    /// The arbitration policy.
    pub policy: Option<ArbitrationPolicy>,
    /// Treatment of a chain that would break a promise.
    pub admission: Option<Mode>,
    /// The file with measured execution times.
    pub calibration: Option<PathBuf>,
    /// The socket.
    pub socket: Option<PathBuf>,
    /// Cores of the server's own threads.
    pub cores: Option<Vec<usize>>,
    /// Cores of the software accelerators' compute threads, by accelerator.
    pub accelerator_cores: BTreeMap<String, Vec<usize>>,
    /// The program whose process has an NVIDIA GPU; none: this process, which cannot get it back
    /// when a kernel has broken it.
    pub gpu_host: Option<GpuHost>,
    /// Launches are not cut into slices: as programs launch that know nothing of each other.
    pub whole_launches: bool,
    /// Takes the server's messages, one line each.
    pub log: Log,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            policy: None,
            admission: None,
            calibration: None,
            socket: None,
            cores: None,
            accelerator_cores: BTreeMap::new(),
            gpu_host: None,
            whole_launches: false,
            log: Arc::new(|_, _| {}),
        }
    }
}

/// Starts the device of one of a system's accelerators as the server would, for measuring it
/// without a server.
///
/// # Errors
/// [`Error::Config`] if there is no such accelerator or it cannot be served, [`Error::Start`] if
/// its device does not start.
pub fn start_device(
    system: &System,
    accelerator: &str,
    options: &Options,
) -> Result<Arc<dyn Device>, Error> {
    let found = system.accelerators.iter().find(|one| one.id == accelerator);
    let expected = "expected the id of one of the accelerators";
    let found = found.ok_or_else(|| config_error("accelerators", accelerator, expected))?;
    let policy = options.policy.unwrap_or(system.server.policy);
    devices::start(system, found, policy, options)
}

/// A running server. Dropping it stops it.
pub struct Server {
    engine: Arc<Dispatcher>,
    inbox: Arc<Inbox>,
    socket: PathBuf,
    socket_file: SocketFile,
    new_rules: Arc<Mutex<Option<NewRules>>>,
    stop: Arc<AtomicBool>,
    memory_bytes: Arc<AtomicU64>,
    realtime: Arc<AtomicBool>,
    admission: (Mode, Bound, String),
    calibration: Option<Calibration>,
    seeker: Option<Arc<Seeker>>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts the server of a system: its accelerators, and the threads that serve them.
    ///
    /// # Errors
    /// [`Error::Config`] names the key that cannot be served; the other variants say which part
    /// of the machine refused.
    pub fn start(system: &System, options: Options) -> Result<Server, Error> {
        let config = &system.server;
        let policy = options.policy.unwrap_or(config.policy);
        if system.accelerators.is_empty() {
            return Err(config_error("accelerators", "none", "expected at least one to serve"));
        }
        let access = Access::new(config)?;
        let calibration = options.calibration.clone().or_else(|| system.calibration_path());
        let calibration = calibration.map(|path| Calibration::read(&path, system)).transpose()?;
        let path = options.socket.clone().unwrap_or_else(|| socket_path(config));
        let door = open_door(&path, config, &access)?;
        if let Some((folder, mode)) = door.blocked_by() {
            let folder = folder.display();
            let line = format!(
                "{folder}: mode {mode:04o} may keep out clients that server.access lets in"
            );
            (options.log)(Level::Warn, &line);
        }
        let engine = Arc::new(Dispatcher::new(config.overrun)?);
        for (index, accelerator) in system.accelerators.iter().enumerate() {
            let device = devices::start(system, accelerator, policy, &options)?;
            let observer = Arc::new(Events { engine: Arc::downgrade(&engine), accelerator: index });
            engine.add_accelerator(Accelerator::new(accelerator, policy, device, observer)?);
        }
        let rules = rules(system, policy, &options, calibration.as_ref());
        let note = admission_note(&rules, policy, &options, config);
        let services = Services::new(system, engine.devices(), calibration.clone());
        check_services(system, &engine.devices())?;
        let inbox = Arc::new(Inbox::new()?);
        let stop = Arc::new(AtomicBool::new(false));
        let log = options.log.clone();
        let seeker = Seeker::of(system)?;
        let realtime = Arc::new(AtomicBool::new(true));
        let facts = Facts {
            system: system.clone(),
            policy,
            note: note.clone(),
            realtime: realtime.clone(),
            seeker: seeker.clone(),
        };
        let cores = options.cores.clone().unwrap_or_else(|| numbers(&config.cores));
        let prepare = at_the_door(config.priority);
        let journal = Arc::new(Journal::new(log, engine.clone()));
        let (socket_file, new_rules) = (door.file(), Arc::default());
        let (limits, to_journal) = (&config.limits, journal.clone());
        let acceptor = control::door::attend(door, limits, engine.clone(), to_journal, prepare)?;
        let limits = config.limits;
        let rules_to_come = Arc::clone(&new_rules);
        let settings =
            Settings { access, limits, services, facts, journal, new_rules: rules_to_come };
        let admission = (rules.mode, config.analysis, note);
        let control = Control::new(
            settings,
            Admission::new(rules),
            engine.clone(),
            inbox.clone(),
            acceptor,
            stop.clone(),
        )?;
        let memory_bytes = control.memory_gauge();
        let mut server = Server {
            engine: engine.clone(),
            inbox: inbox.clone(),
            socket: path,
            socket_file,
            new_rules,
            stop,
            memory_bytes,
            realtime,
            admission,
            calibration,
            seeker: seeker.clone(),
            threads: Vec::new(),
        };
        if config.awake {
            let given = |of: &system::Accelerator| options.accelerator_cores.get(&of.id).cloned();
            let devices = system.accelerators.iter();
            let theirs = devices.flat_map(|of| given(of).unwrap_or_else(|| numbers(&of.cores)));
            let kept = awake::keep(theirs.chain(cores.iter().copied()).collect(), &server.stop);
            let failed = |error: std::io::Error| Error::Thread { name: "kt-awake", reason: error };
            server.threads.extend(kept.map_err(failed)?);
        }
        let above = |below: u32| scheduling(config.priority, below);
        if let Some(seeker) = seeker {
            // Before the first request, which is to find the lock.
            let (engine, log) = (engine.clone(), options.log.clone());
            let connection = seeker.attach(&engine, &log);
            let run = move || seeker.run(&engine, &log, connection);
            server.spawn("kt-holder", above(1), &cores, &options.log, run)?;
        }
        server.spawn("kt-inbox", above(0), &cores, &options.log, move || inbox.run(&engine))?;
        // Below every real-time thread: nothing that it does is for a chain that was promised
        // something.
        let urgent = config.priority > 0;
        server.spawn("kt-control", Scheduling::Normal, &cores, &options.log, move || {
            if urgent {
                // Before other ordinary threads, where this process may.
                let _ = rustix::process::setpriority_process(None, -20);
            }
            control.run();
        })?;
        Ok(server)
    }

    /// Starts a thread and waits until it has its priority and cores, or has failed to get them.
    fn spawn(
        &mut self,
        name: &'static str,
        scheduling: Scheduling,
        cores: &[usize],
        log: &Log,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), Error> {
        let (report, reported) = std::sync::mpsc::channel();
        let cores = cores.to_vec();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            let pinned = realtime::thread::pin(&cores);
            let set = realtime::thread::set_policy(scheduling);
            let _ = report.send((pinned, set));
            body();
        });
        self.threads.push(thread.map_err(|reason| Error::Thread { name, reason })?);
        if let Ok((pinned, set)) = reported.recv() {
            let ordinary = "normal priority, so that any ordinary thread may delay urgent requests \
                            and no bound holds";
            let unset = set.err().map(|error| format!("{ordinary}: {error}"));
            for trouble in pinned.err().map(|error| error.to_string()).into_iter().chain(unset) {
                self.realtime.store(false, Ordering::Relaxed);
                log(Level::Warn, &format!("{name}: {trouble}"));
            }
        }
        Ok(())
    }

    /// The socket's path.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns true if the server's own threads run at their priority and on their cores.
    pub fn is_realtime(&self) -> bool {
        self.realtime.load(Ordering::Relaxed)
    }

    /// Returns the treatment of a chain that would break a promise, and the analysis that decides.
    pub fn admission(&self) -> (Mode, Bound) {
        (self.admission.0, self.admission.1)
    }

    /// The measured execution times that it goes by.
    pub fn calibration(&self) -> Option<&Calibration> {
        self.calibration.as_ref()
    }

    /// Returns the reason for which admission control is off although it is asked for; or empty.
    pub fn admission_note(&self) -> &str {
        &self.admission.2
    }

    /// The server's counters.
    pub fn counters(&self) -> Counters {
        let mut counters = self.engine.counters();
        counters.memory_bytes = self.memory_bytes.load(Ordering::Relaxed);
        counters
    }

    /// Returns the id and the device of each accelerator.
    pub fn devices(&self) -> Vec<(String, Arc<dyn Device>)> {
        self.engine.devices()
    }

    /// Takes other rules of access and other limits of sessions, registrations and memory of a
    /// session, for connections and registrations from now on. The other settings are those with
    /// which it started.
    ///
    /// # Errors
    /// [`Error::Config`] for a rule of a user or group that this machine does not know,
    /// [`Error::Socket`] if the socket cannot be opened to them; nothing has changed then.
    pub fn reload(&self, config: &system::Server) -> Result<(), Error> {
        let access = Access::new(config)?;
        let path = &self.socket;
        let openers = access.openers(config.mode, group_of(config)?);
        let closed = |reason| Error::Socket { path: path.clone(), reason };
        self.socket_file.admit(&openers).map_err(closed)?;
        let rules = NewRules { access, limits: config.limits };
        *self.new_rules.lock().unwrap_or_else(PoisonError::into_inner) = Some(rules);
        self.engine.control.ring();
        Ok(())
    }

    /// Ends all sessions and all threads.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // Release: pairs with the acquire in the control thread, which the bell wakes.
        self.stop.store(true, Ordering::Release);
        self.engine.control.ring();
        self.inbox.stop();
        if let Some(seeker) = &self.seeker {
            seeker.stop();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.engine.clear();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// The device's events on their way to the dispatcher. The token of an event is its lane.
struct Events {
    engine: Weak<Dispatcher>,
    accelerator: usize,
}

impl Observer for Events {
    fn completed(&self, token: u64, outcome: &OperationOutcome) {
        if let Some(engine) = self.engine.upgrade() {
            engine.completed(self.accelerator, token as usize, outcome);
        }
    }

    fn overrun(&self, token: u64) {
        if let Some(engine) = self.engine.upgrade() {
            engine.overran(self.accelerator, token as usize);
        }
    }
}

fn open_door(
    path: &Path,
    config: &system::Server,
    access: &Access,
) -> Result<ServiceSocket, Error> {
    ServiceSocket::open(path, access.openers(config.mode, group_of(config)?))
        .map_err(|reason| Error::Socket { path: path.into(), reason })
}

/// The number of the group that owns the socket, if one is named.
fn group_of(config: &system::Server) -> Result<Option<u32>, Error> {
    let group = config.group.as_deref().map(|name| {
        let expected = "expected a group that this machine knows";
        let unknown = || config_error("server.group", &format!("{name:?}"), expected);
        bandwidth::holders::group_id(name).ok_or_else(unknown)
    });
    group.transpose()
}

/// The socket at which a server with these settings listens and clients find it.
pub fn socket_path(server: &system::Server) -> PathBuf {
    server.socket.clone().unwrap_or_else(|| shm::environment::own_socket("keeptime"))
}

fn config_error(key: &str, found: &str, expected: &str) -> Error {
    Error::Config { key: key.into(), found: found.into(), expected: expected.into() }
}

fn numbers(cores: &[u32]) -> Vec<usize> {
    cores.iter().map(|&core| core as usize).collect()
}

/// The thread at the door runs below all real-time threads, and above all others, on any core that
/// is left to it: those of the server may be busy with requests for as long as clients like.
/// Without the right to its priority it shares with others; what is missing, other threads report.
fn at_the_door(priority: u32) -> impl FnOnce() + Send + 'static {
    move || {
        if priority > 0 {
            let _ = realtime::thread::set_policy(Scheduling::Fifo(1));
        }
    }
}

/// Real-time priority some steps below the dispatch thread's; normal where that is normal.
fn scheduling(priority: u32, below: u32) -> Scheduling {
    match u8::try_from(priority) {
        Ok(priority @ 1..) => Scheduling::Fifo(priority.saturating_sub(below as u8).max(1)),
        _ => Scheduling::Normal,
    }
}

/// Builds the rules of admission control. Without priorities there is nothing to analyse.
fn rules(
    system: &System,
    policy: ArbitrationPolicy,
    options: &Options,
    calibration: Option<&Calibration>,
) -> Rules {
    let config = &system.server;
    let levels = |buckets: u32| if policy == ArbitrationPolicy::Priority { buckets } else { 1 };
    let mut model = system.model();
    if config.overrun == Overrun::Count {
        let chains = model.chains.iter_mut().zip(&system.chains);
        let callbacks = chains.flat_map(|(m, s)| m.callbacks.iter_mut().zip(&s.callbacks));
        for (segment, named) in callbacks.flat_map(|(m, s)| m.segments.iter_mut().zip(&s.segments))
        {
            // Nothing stops a request that takes longer than the file says.
            let service = named.service.as_ref().zip(calibration);
            let measured = service.and_then(|(service, times)| times.measured(service));
            let longest = measured.map_or(0, |measured| measured.most_ns);
            segment.exec.max_ns = segment.exec.max_ns.max(longest);
        }
    }
    Rules {
        mode: match policy {
            ArbitrationPolicy::Priority => options.admission.unwrap_or(config.admission),
            ArbitrationPolicy::Fifo | ArbitrationPolicy::Timeslice => Mode::Off,
        },
        variant: match config.analysis {
            Bound::Tight => analysis::Variant::Tight,
            Bound::Sound => analysis::Variant::Sound,
        },
        file: File { system: system.clone(), model },
        buckets: system.accelerators.iter().map(|a| levels(a.buckets)).collect(),
    }
}

/// Returns the reason for which admission control is off although it is asked for; or empty.
fn admission_note(
    rules: &Rules,
    policy: ArbitrationPolicy,
    options: &Options,
    config: &system::Server,
) -> String {
    let wanted = options.admission.unwrap_or(config.admission);
    if rules.mode == wanted {
        return String::new();
    }
    let policy = format!("{policy:?}").to_lowercase();
    format!("there is no analysis of policy {policy}, so nothing is promised")
}

/// Every configured service names a kernel that its accelerator has.
fn check_services(system: &System, devices: &[(String, Arc<dyn Device>)]) -> Result<(), Error> {
    for service in &system.services {
        let device = devices.iter().find(|(id, _)| *id == service.accelerator);
        let known = device.is_some_and(|(_, device)| device.kernel(&service.kernel).is_some());
        if !known {
            let kernels: Vec<&str> =
                device.iter().flat_map(|(_, d)| d.kernels()).map(|kernel| kernel.name).collect();
            return Err(Error::Config {
                key: format!("services.{}.kernel", service.name),
                found: format!("{:?}", service.kernel),
                expected: format!("expected one of {}", kernels.join(", ")),
            });
        }
    }
    Ok(())
}
