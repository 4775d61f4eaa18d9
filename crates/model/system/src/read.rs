//! From the tree to the structs: keys, types, ranges and defaults, one function per section.
//!
//! Errors that need two values (a reference, a duplicate, an order) are left to `check`.

use crate::field::{Field, Fields};
use crate::kernel;
use crate::ros;
use crate::tree::{self, Node};
use crate::{
    Accelerator, AccessRule, Admission, Bound, Callback, Chain, DeviceKind, Error, Executor,
    Limits, MAX_ARGUMENTS, MAX_BUCKETS, MAX_CORES, MAX_SLICES_AT_ONCE, Overrun, Policy, Segment,
    Server, Service, Subject, System, TimeUnit, Wait, check, draft,
};
use std::collections::{BTreeMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The largest file that is read.
const MAX_BYTES: u64 = 16 << 20;
/// The longest path of a Unix socket, in bytes.
const MAX_SOCKET_PATH: usize = 107;
/// The highest real-time priority.
const MAX_PRIORITY: u32 = 99;

impl System {
    /// Reads and checks the system file at `path`.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::TooLarge`], and everything that [`System::parse`] returns.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let (text, name) = read_text(path.as_ref())?;
        Self::parse(&text, &name)
    }

    /// Reads a file in which chains and executors may lack their priorities; they get any.
    ///
    /// # Errors
    /// Those of [`System::read`].
    pub fn read_draft(path: impl AsRef<Path>) -> Result<Self, Error> {
        let (text, name) = read_text(path.as_ref())?;
        Self::parse_draft(&text, &name)
    }

    /// Parses and checks the text of a system file; errors carry the name of the file.
    ///
    /// # Errors
    /// Names the file, the line, the key, the value and what was expected.
    pub fn parse(text: &str, name_of_file: &str) -> Result<Self, Error> {
        Self::from_tree(&tree::parse(text, name_of_file)?, name_of_file)
    }

    /// Parses a file in which chains and executors may lack their priorities; they get any.
    ///
    /// # Errors
    /// Those of [`System::parse`].
    pub fn parse_draft(text: &str, name_of_file: &str) -> Result<Self, Error> {
        let mut tree = tree::parse(text, name_of_file)?;
        draft::complete(&mut tree);
        Self::from_tree(&tree, name_of_file)
    }

    fn from_tree(tree: &Node, name_of_file: &str) -> Result<Self, Error> {
        let system = Sections::new(name_of_file, tree)?.system()?;
        check::check(&system, tree)?;
        Ok(system)
    }
}

/// The text and the name of a file.
fn read_text(path: &Path) -> Result<(String, String), Error> {
    let file = path.display().to_string();
    match crate::file::text(path, MAX_BYTES) {
        Ok(text) => Ok((text, file)),
        Err(reason) if reason.kind() == ErrorKind::FileTooLarge => {
            Err(Error::TooLarge { file, limit_bytes: MAX_BYTES })
        }
        Err(reason) => Err(Error::Read { file, reason }),
    }
}

/// The top level of the file, and the unit of its bare times.
pub(crate) struct Sections<'t> {
    file: &'t str,
    top: Fields<'t>,
    unit: TimeUnit,
}

impl<'t> Sections<'t> {
    fn new(file: &'t str, tree: &'t Node) -> Result<Self, Error> {
        let known = [
            "time_unit",
            "kappa",
            "epsilon",
            "sigma",
            "hop",
            "accelerators",
            "executors",
            "chains",
            "server",
            "ros",
            "services",
            "graph",
        ];
        let top = Field { file, path: Vec::new(), node: tree }.fields(&known)?;
        let unit = top.or("time_unit", TimeUnit::default(), time_unit)?;
        Ok(Self { file, top, unit })
    }

    fn system(&self) -> Result<System, Error> {
        let time = |key: &str| self.top.or(key, 0, |field| field.time_ns(self.unit));
        Ok(System {
            name: self.file.to_owned(),
            time_unit: self.unit,
            kappa_ns: time("kappa")?,
            epsilon_ns: time("epsilon")?,
            sigma_ns: time("sigma")?,
            hop_ns: time("hop")?,
            accelerators: self.top.each("accelerators", accelerator)?,
            executors: self.top.each("executors", executor)?,
            chains: self.top.each("chains", |field| self.chain(field))?,
            server: self.top.or("server", Server::default(), |field| self.server(field))?,
            ros: self.top.optional("ros").map(|field| ros::ros(field, self.unit)).transpose()?,
            services: self.top.each("services", |field| self.service(field))?,
            graph: self.top.optional("graph").map(|field| self.graph(field)).transpose()?,
        })
    }

    fn chain(&self, field: Field<'t>) -> Result<Chain, Error> {
        let fields = field.fields(&[
            "id",
            "priority",
            "period",
            "deadline",
            "jitter",
            "wait",
            "best_effort",
            "bucket",
            "callbacks",
        ])?;
        let period_ns = self.positive_time(&fields.required("period")?)?;
        let callbacks = fields.required("callbacks")?;
        let chain = Chain {
            id: fields.required("id")?.name()?,
            priority: fields.required("priority")?.number(0..=u32::MAX)?,
            period_ns,
            deadline_ns: fields.or("deadline", period_ns, |field| self.positive_time(&field))?,
            jitter_ns: self.optional_time(&fields, "jitter")?.unwrap_or(0),
            wait: fields.or("wait", Wait::default(), |field| {
                field.choice(&[("suspend", Wait::Suspend), ("spin", Wait::Spin)])
            })?,
            best_effort: fields.or("best_effort", false, |field| field.boolean())?,
            bucket: match fields.optional("bucket") {
                Some(buckets) => buckets
                    .entries()?
                    .into_iter()
                    .map(|(id, bucket)| Ok((id, bucket.number(0..=MAX_BUCKETS - 1)?)))
                    .collect::<Result<_, Error>>()?,
                None => Default::default(),
            },
            callbacks: callbacks
                .list()?
                .into_iter()
                .map(|field| self.callback(field))
                .collect::<Result<_, Error>>()?,
        };
        if chain.callbacks.is_empty() {
            return Err(callbacks.refuse("at least one callback"));
        }
        Ok(chain)
    }

    fn callback(&self, field: Field<'t>) -> Result<Callback, Error> {
        let fields = field.fields(&["id", "executor", "cpu", "cpu_min", "segments"])?;
        let callback = Callback {
            id: fields.required("id")?.name()?,
            executor: fields.required("executor")?.name()?,
            cpu_ns: fields.or("cpu", 0, |field| field.time_ns(self.unit))?,
            cpu_min_ns: self.optional_time(&fields, "cpu_min")?,
            segments: fields.each("segments", |field| self.segment(field))?,
        };
        if callback.cpu_ns == 0 && callback.segments.is_empty() {
            return Err(fields.refuse("a cpu time above 0 or at least one segment"));
        }
        Ok(callback)
    }

    pub(crate) fn segment(&self, field: Field<'t>) -> Result<Segment, Error> {
        let fields = field.fields(&["accel", "exec", "exec_min", "cpu_before", "service"])?;
        Ok(Segment {
            accel: fields.required("accel")?.name()?,
            exec_ns: self.positive_time(&fields.required("exec")?)?,
            exec_min_ns: self.optional_time(&fields, "exec_min")?,
            cpu_before_ns: self.optional_time(&fields, "cpu_before")?.unwrap_or(0),
            service: fields.optional("service").map(|field| field.name()).transpose()?,
        })
    }

    fn service(&self, field: Field<'t>) -> Result<Service, Error> {
        let fields = field.fields(&[
            "name",
            "accelerator",
            "kernel",
            "arguments",
            "exec",
            "bandwidth_lock",
        ])?;
        let service = Service {
            name: fields.required("name")?.name()?,
            accelerator: fields.required("accelerator")?.name()?,
            kernel: fields.required("kernel")?.name()?,
            arguments: fields.each("arguments", |field| field.whole(0..=u64::MAX))?,
            exec_ns: fields.optional("exec").map(|f| self.positive_time(&f)).transpose()?,
            bandwidth_lock: fields.or("bandwidth_lock", false, |field| field.boolean())?,
        };
        match fields.optional("arguments") {
            Some(field) if service.arguments.len() > MAX_ARGUMENTS => {
                Err(field.refuse(format!("at most {MAX_ARGUMENTS} arguments")))
            }
            _ => Ok(service),
        }
    }

    fn server(&self, field: Field<'t>) -> Result<Server, Error> {
        let fields = field.fields(&[
            "socket",
            "mode",
            "group",
            "policy",
            "slice",
            "priority",
            "cores",
            "awake",
            "overrun",
            "admission",
            "analysis",
            "calibration",
            "bandwidth_socket",
            "limits",
            "access",
        ])?;
        let default = Server::default();
        Ok(Server {
            socket: fields.optional("socket").map(|field| socket(&field)).transpose()?,
            mode: fields.or("mode", default.mode, mode)?,
            group: fields.optional("group").map(|field| field.name()).transpose()?,
            policy: fields.or("policy", default.policy, |field| {
                field.choice(&[
                    ("priority", Policy::Priority),
                    ("fifo", Policy::Fifo),
                    ("timeslice", Policy::Timeslice),
                ])
            })?,
            slice_ns: fields.or("slice", default.slice_ns, |field| self.positive_time(&field))?,
            priority: fields.or("priority", default.priority, |f| f.number(0..=MAX_PRIORITY))?,
            cores: fields.or("cores", Vec::new(), cores)?,
            awake: fields.or("awake", false, |field| field.boolean())?,
            overrun: fields.or("overrun", default.overrun, |field| {
                field.choice(&[("count", Overrun::Count), ("demote", Overrun::Demote)])
            })?,
            admission: fields.or("admission", default.admission, |field| {
                field.choice(&[
                    ("enforce", Admission::Enforce),
                    ("report", Admission::Report),
                    ("off", Admission::Off),
                ])
            })?,
            analysis: fields.or("analysis", default.analysis, |field| {
                field.choice(&[("tight", Bound::Tight), ("sound", Bound::Sound)])
            })?,
            calibration: fields.optional("calibration").map(|field| file(&field)).transpose()?,
            bandwidth_socket: fields
                .optional("bandwidth_socket")
                .map(|f| socket(&f))
                .transpose()?,
            limits: fields.or("limits", default.limits, limits)?,
            access: fields.each("access", access_rule)?,
        })
    }

    pub(crate) fn positive_time(&self, field: &Field<'t>) -> Result<u64, Error> {
        match field.time_ns(self.unit)? {
            0 => Err(field.refuse("a time above 0")),
            time_ns => Ok(time_ns),
        }
    }

    fn optional_time(&self, fields: &Fields<'t>, key: &str) -> Result<Option<u64>, Error> {
        fields.optional(key).map(|field| field.time_ns(self.unit)).transpose()
    }
}

fn time_unit(field: Field<'_>) -> Result<TimeUnit, Error> {
    let units =
        [TimeUnit::Nanosecond, TimeUnit::Microsecond, TimeUnit::Millisecond, TimeUnit::Second];
    field.choice(&units.map(|unit| (unit.name(), unit)))
}

fn accelerator(field: Field<'_>) -> Result<Accelerator, Error> {
    let keys = [
        "id",
        "buckets",
        "bucket_from",
        "device",
        "cores",
        "concurrent_lowest",
        "spin",
        "blocks_per_slice",
        "slices_at_once",
        "provider",
        "kernels",
    ];
    let fields = field.fields(&keys)?;
    let device = fields.or("device", DeviceKind::default(), device)?;
    let spin = fields.optional("spin");
    let is_gpu = matches!(device, DeviceKind::Cuda(_) | DeviceKind::Vulkan(_));
    if let Some(field) = spin.as_ref().filter(|_| !is_gpu) {
        return Err(field.refuse("spin only with device cuda:N or vulkan:N"));
    }
    let blocks = fields.optional("blocks_per_slice");
    if let Some(field) = blocks.as_ref().filter(|_| !matches!(device, DeviceKind::Cuda(_))) {
        return Err(field.refuse("blocks_per_slice only with device cuda:N"));
    }
    let slices = fields.optional("slices_at_once");
    if let Some(field) = slices.as_ref().filter(|_| !matches!(device, DeviceKind::Cuda(_))) {
        return Err(field.refuse("slices_at_once only with device cuda:N"));
    }
    let provider = fields.optional("provider");
    if let Some(field) = provider.as_ref().filter(|_| device != DeviceKind::Onnx) {
        return Err(field.refuse("provider only with device onnx"));
    }
    let (mut kernels, mut names) = (Vec::new(), HashSet::new());
    for field in fields.optional("kernels").map_or(Ok(Vec::new()), |list| list.list())? {
        let (kernel, name) = kernel::read(field, device)?;
        if !names.insert(kernel.name.clone()) {
            return Err(name.refuse("every name once"));
        }
        kernels.push(kernel);
    }
    let buckets = fields.required("buckets")?.number(1..=MAX_BUCKETS)?;
    let from = fields.optional("bucket_from");
    Ok(Accelerator {
        id: fields.required("id")?.name()?,
        buckets,
        bucket_from: from.map_or(Ok(Vec::new()), |field| bucket_from(&field, buckets))?,
        device,
        cores: fields.or("cores", Vec::new(), cores)?,
        concurrent_lowest: fields.or("concurrent_lowest", false, |field| field.boolean())?,
        spin: spin.map_or(Ok(false), |field| field.boolean())?,
        blocks_per_slice: blocks.map_or(Ok(0), |field| field.number(0..=u32::MAX))?,
        slices_at_once: slices.map_or(Ok(1), |field| field.number(1..=MAX_SLICES_AT_ONCE))?,
        provider: provider.map_or(Ok(None), self::provider)?,
        kernels,
    })
}

/// A priority for each bucket: 0, and each above the one before.
fn bucket_from(field: &Field<'_>, buckets: u32) -> Result<Vec<u32>, Error> {
    let items = field.clone().list()?;
    if items.len() != buckets as usize {
        return Err(field.refuse(format!("one priority for each of {buckets} buckets")));
    }
    let mut from: Vec<u32> = Vec::with_capacity(items.len());
    for item in items {
        let priority = item.number(0..=u32::MAX)?;
        match from.last() {
            None if priority != 0 => return Err(item.refuse("0, so that all have a bucket")),
            Some(&below) if priority <= below => {
                return Err(
                    item.refuse(format!("more than {below}, from which the bucket below is"))
                );
            }
            _ => from.push(priority),
        }
    }
    Ok(from)
}

fn provider(field: Field<'_>) -> Result<Option<u32>, Error> {
    match device(field.clone()) {
        Ok(DeviceKind::Cpu) => Ok(None),
        Ok(DeviceKind::Cuda(ordinal)) => Ok(Some(ordinal)),
        _ => Err(field.refuse("cpu or cuda:N")),
    }
}

fn device(field: Field<'_>) -> Result<DeviceKind, Error> {
    let expected = "cpu, cuda:N, vulkan:N or onnx";
    let ordinal = |digits: &str| {
        let short = (1..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse().ok().filter(|_| short)
    };
    let kind = match field.text(expected)?.split_once(':') {
        None => match field.text(expected)? {
            "cpu" => Some(DeviceKind::Cpu),
            "onnx" => Some(DeviceKind::Onnx),
            _ => None,
        },
        Some(("cuda", digits)) => ordinal(digits).map(DeviceKind::Cuda),
        Some(("vulkan", digits)) => ordinal(digits).map(DeviceKind::Vulkan),
        Some(_) => None,
    };
    kind.ok_or_else(|| field.refuse(expected))
}

fn executor(field: Field<'_>) -> Result<Executor, Error> {
    let fields = field.fields(&["id", "core", "priority"])?;
    Ok(Executor {
        id: fields.required("id")?.name()?,
        core: fields.required("core")?.number(0..=MAX_CORES - 1)?,
        priority: fields.required("priority")?.number(0..=MAX_PRIORITY)?,
    })
}

fn cores(field: Field<'_>) -> Result<Vec<u32>, Error> {
    let mut cores = Vec::new();
    for item in field.list()? {
        let core = item.number(0..=MAX_CORES - 1)?;
        if cores.contains(&core) {
            return Err(item.refuse("every core once"));
        }
        cores.push(core);
    }
    Ok(cores)
}

fn socket(field: &Field<'_>) -> Result<PathBuf, Error> {
    let expected = format!("a path of 1 to {MAX_SOCKET_PATH} bytes");
    let text = field.text(&expected)?;
    if text.is_empty() || text.len() > MAX_SOCKET_PATH || text.contains('\0') {
        return Err(field.refuse(expected));
    }
    Ok(PathBuf::from(text))
}

/// The path of a file, as the file says it.
pub(crate) fn file(field: &Field<'_>) -> Result<PathBuf, Error> {
    let expected = "the path of a file";
    match field.text(expected)? {
        "" => Err(field.refuse(expected)),
        text if text.contains('\0') => Err(field.refuse(expected)),
        text => Ok(PathBuf::from(text)),
    }
}

/// Permissions are octal with or without quotes: `0660`, `"660"`, `0o660`.
fn mode(field: Field<'_>) -> Result<u32, Error> {
    let expected = "octal permissions up to \"0777\", such as \"0660\"";
    let text = field.text(expected)?;
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let octal = !digits.is_empty() && digits.bytes().all(|b| matches!(b, b'0'..=b'7'));
    match u32::from_str_radix(digits, 8) {
        Ok(mode) if octal && mode <= 0o777 => Ok(mode),
        _ => Err(field.refuse(expected)),
    }
}

fn limits(field: Field<'_>) -> Result<Limits, Error> {
    let fields = field.fields(&[
        "sessions",
        "registrations",
        "memory",
        "total_memory",
        "user_memory",
        "connects_per_second",
        "control_percent",
    ])?;
    let default = Limits::default();
    let count = |field: Field<'_>| field.number(1..=65_536);
    Ok(Limits {
        sessions: fields.or("sessions", default.sessions, count)?,
        registrations: fields.or("registrations", default.registrations, count)?,
        memory_bytes: fields.or("memory", default.memory_bytes, memory)?,
        total_memory_bytes: fields.optional("total_memory").map(memory).transpose()?,
        user_memory_bytes: fields.optional("user_memory").map(memory).transpose()?,
        connects_per_second: fields.or(
            "connects_per_second",
            default.connects_per_second,
            count,
        )?,
        control_percent: fields
            .or("control_percent", default.control_percent, |field| field.number(1..=100))?,
    })
}

/// Shared memory comes in pages.
fn memory(field: Field<'_>) -> Result<u64, Error> {
    match field.bytes()? {
        bytes if (4096..=1 << 40).contains(&bytes) => Ok(bytes),
        _ => Err(field.refuse("4 KiB to 1024 GiB")),
    }
}

fn access_rule(field: Field<'_>) -> Result<AccessRule, Error> {
    let fields = field.fields(&["user", "group", "priority", "sessions", "memory", "declare"])?;
    let subject = match (fields.optional("user"), fields.optional("group")) {
        (Some(user), None) => match user.plain_number() {
            Some(id) => Subject::UserId(id),
            None => Subject::User(user.name()?),
        },
        (None, Some(group)) => match group.plain_number() {
            Some(id) => Subject::GroupId(id),
            None => Subject::Group(group.name()?),
        },
        _ => return Err(fields.refuse("either a user or a group")),
    };
    let priority = fields.required("priority")?;
    let bounds = priority
        .list()?
        .into_iter()
        .map(|bound| bound.number(0..=u32::MAX))
        .collect::<Result<Vec<_>, _>>()?;
    let [priority_min, priority_max] = bounds[..] else {
        return Err(priority.refuse("two numbers, [least, greatest]"));
    };
    if priority_min > priority_max {
        return Err(priority.refuse("two numbers, [least, greatest]"));
    }
    Ok(AccessRule {
        subject,
        priority_min,
        priority_max,
        sessions: fields.optional("sessions").map(|f| f.number(1..=65_536)).transpose()?,
        memory_bytes: fields.optional("memory").map(memory).transpose()?,
        declare: fields.optional("declare").map(|field| declare(&field)).transpose()?.flatten(),
    })
}

/// `true` sets no limit, `false` allows nothing.
fn declare(field: &Field<'_>) -> Result<Option<BTreeMap<String, u32>>, Error> {
    let expected = "true, false, or percents of accelerators such as {gpu0: 25}";
    if let Ok(all) = field.boolean() {
        return Ok((!all).then(BTreeMap::new));
    }
    let entries = field.entries().map_err(|_| field.refuse(expected))?;
    let percents = entries.into_iter().map(|(id, field)| Ok((id, field.number(0..=100)?)));
    percents.collect::<Result<_, Error>>().map(Some)
}
