//! `keeptime ros-gateway`: the process that stands between the ROS 2 graph and the accelerator
//! server. `keeptime serve` starts it for a system file with a `ros` section.
//!
//! Whatever foreign packets may do to it ends here: a panic of any of its threads ends the process,
//! its memory is limited, and it runs at normal priority.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use ros::gateway::{Limits, Settings};
use ros::{Distribution, Mapping, Options};
use rustix::process::{Pid, Resource, Rlimit, Signal};
use system::{Middleware, Ros, System};

/// Options of `keeptime ros-gateway`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The system file with the `ros` section
    config: PathBuf,
    /// The socket of the server
    #[arg(long)]
    socket: Option<PathBuf>,
    /// Number of times that it was started before
    #[arg(long, default_value_t = 0)]
    restarts: u32,
    /// End with this process, which started it
    #[arg(long)]
    parent: Option<u32>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let system = System::read(&args.config)?;
    let file = args.config.display();
    let ros = system.ros.as_ref().with_context(|| format!("{file}: expected a section ros"))?;
    if let Some(parent) = args.parent {
        follow(parent)?;
    }
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        hook(panic);
        std::process::abort();
    }));
    let limit = Rlimit { current: Some(ros.memory_bytes), maximum: Some(ros.memory_bytes) };
    rustix::process::setrlimit(Resource::Data, limit).context("limit of memory")?;
    let socket = args.socket.clone().unwrap_or_else(|| accel_server::socket_path(&system.server));
    let options = options(&system, ros)?;
    let node = format!("{}/{}", ros.namespace.trim_end_matches('/'), ros.node);
    let secured = match &options.security {
        Some(folder) => format!(", secured by {}", folder.display()),
        None => String::new(),
    };
    tell!("keeptime ros-gateway: node {node} in domain {}{secured}", ros.domain);
    let settings = settings(ros, options, socket, args.restarts);
    match ros::gateway::run(settings).with_context(|| file.to_string())? {}
}

/// Ends together with the process that started this one.
fn follow(parent: u32) -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .context("death signal of the parent")?;
    // It may have ended before the kernel was asked.
    let now = rustix::process::getppid().map(Pid::as_raw_nonzero);
    anyhow::ensure!(
        now.is_some_and(|now| now.get() as u32 == parent),
        "process {parent} has ended"
    );
    Ok(())
}

/// Checks that the gateway of a system can be secured as is asked for; sends nothing.
pub(crate) fn check(system: &System) -> anyhow::Result<()> {
    match &system.ros {
        Some(ros) => Ok(options(system, ros)?.check()?),
        None => Ok(()),
    }
}

fn settings(ros: &Ros, options: Options, socket: PathBuf, restarts: u32) -> Settings {
    let limits = Limits {
        clients: ros.limits.clients,
        registrations: ros.limits.registrations,
        request_bytes: ros.limits.request_bytes,
        in_flight: ros.limits.in_flight as u16,
        priority: ros.limits.priority,
        services: ros.services.clone(),
        lease: Duration::from_nanos(ros.limits.lease_ns),
    };
    Settings {
        options,
        namespace: ros.namespace.clone(),
        name: ros.node.clone(),
        mapping: mapping(ros.middleware),
        socket,
        limits,
        status_period: Duration::from_nanos(ros.status_ns),
        restarts,
    }
}

fn options(system: &System, ros: &Ros) -> anyhow::Result<Options> {
    let distribution = match ros.distribution {
        system::Distribution::Humble => Distribution::Humble,
        system::Distribution::Jazzy => Distribution::Jazzy,
    };
    let (interfaces, peers) = (ros.interfaces.clone(), ros.peers.clone());
    let security = crate::ros_security::enclave(system.enclave_path())?;
    Ok(Options { domain: ros.domain, interfaces, peers, distribution, security })
}

fn mapping(middleware: Middleware) -> Mapping {
    match middleware {
        Middleware::Cyclonedds => Mapping::Cyclone,
        Middleware::Fastrtps => Mapping::Enhanced,
    }
}
