//! The Vulkan loader, and the devices that it finds.

use crate::{Error, Select};
use ash::vk;
use std::ffi::CStr;

/// Invocations that the largest work group of the built-in kernels has.
const GROUP_INVOCATIONS: u32 = 256;

/// Kind of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A graphics processor with memory of its own.
    Discrete,
    /// One that shares the memory of the processor.
    Integrated,
    /// One that a hypervisor shares out.
    Virtual,
    /// Software on processor cores.
    Cpu,
    /// Anything else.
    Other,
}

/// A device that Vulkan finds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its place in the order of the loader.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Kind of the device.
    pub kind: Kind,
    /// Its Vulkan version: major, minor and patch.
    pub vulkan: [u32; 3],
    /// Name and version of its driver, as the driver puts it.
    pub driver: String,
    /// Number of queues of its best family for computing.
    pub compute_queues: u32,
    /// True if it offers to reach memory of the host itself (`VK_EXT_external_memory_host`).
    pub imports: bool,
    /// Missing properties, if it cannot be used.
    pub missing: Option<String>,
}

/// All devices that Vulkan finds, also those that cannot be used.
///
/// # Errors
/// [`Error::Loader`], [`Error::Driver`], [`Error::OldLoader`], [`Error::Call`].
pub fn devices() -> Result<Vec<Found>, Error> {
    let candidates = Library::load()?.candidates()?;
    Ok(candidates.into_iter().map(|candidate| candidate.found).collect())
}

/// The loaded loader with an instance.
pub(crate) struct Library {
    pub instance: ash::Instance,
    // Declared after the instance, whose code it keeps loaded.
    _entry: ash::Entry,
}

/// A device that may be started.
pub(crate) struct Candidate {
    pub found: Found,
    pub handle: vk::PhysicalDevice,
    pub family: u32,
    pub limits: vk::PhysicalDeviceLimits,
    pub float64: bool,
    /// True if accesses beyond a binding, and not only beyond its buffer, are caught.
    pub robust_bindings: bool,
    /// Alignment of the start and the end of memory of the host that the device reaches itself;
    /// `None` if it does not.
    pub import_alignment: Option<u64>,
}

impl Library {
    pub(crate) fn load() -> Result<Library, Error> {
        // SAFETY: the loader is the system's; its initialisers have no requirements.
        let entry =
            unsafe { ash::Entry::load() }.map_err(|error| Error::Loader(error.to_string()))?;
        // SAFETY: no requirements.
        let version = unsafe { entry.try_enumerate_instance_version() };
        let version = version.map_err(Error::of("vkEnumerateInstanceVersion"))?;
        let version = version.unwrap_or(vk::API_VERSION_1_0);
        let (major, minor) = (vk::api_version_major(version), vk::api_version_minor(version));
        if (major, minor) < (1, 2) {
            return Err(Error::OldLoader { major, minor });
        }
        let application = vk::ApplicationInfo::default()
            .application_name(c"keeptime")
            .api_version(vk::API_VERSION_1_2);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the description is complete and outlives the call.
        let instance = unsafe { entry.create_instance(&info, None) }.map_err(no_driver)?;
        Ok(Library { instance, _entry: entry })
    }

    pub(crate) fn candidates(&self) -> Result<Vec<Candidate>, Error> {
        // SAFETY: the instance is alive.
        let handles = unsafe { self.instance.enumerate_physical_devices() }.map_err(no_driver)?;
        handles.into_iter().enumerate().map(|(i, handle)| self.candidate(i, handle)).collect()
    }

    /// The device that is meant, if it can be used.
    pub(crate) fn select(&self, select: &Select) -> Result<Candidate, Error> {
        let candidates = self.candidates()?;
        let usable = |found: &Found| found.missing.is_none();
        let place = match select {
            Select::Index(index) => Some(*index).filter(|index| *index < candidates.len()),
            Select::Name(name) => {
                let name = name.to_lowercase();
                candidates.iter().position(|one| one.found.name.to_lowercase().contains(&name))
            }
            Select::Default => {
                let real = |one: &Candidate| usable(&one.found) && one.found.kind != Kind::Cpu;
                let first = candidates.iter().position(real);
                first.or_else(|| candidates.iter().position(|one| usable(&one.found)))
            }
        };
        let names: Vec<String> = candidates.iter().map(describe).collect();
        match place.and_then(|place| candidates.into_iter().nth(place)) {
            Some(Candidate { found: Found { name, missing: Some(missing), .. }, .. }) => {
                Err(Error::Lacks { name, missing })
            }
            Some(candidate) => Ok(candidate),
            None => {
                let wanted = match select {
                    Select::Index(index) => format!("number {index}"),
                    Select::Name(name) => format!("named {name:?}"),
                    Select::Default => "that can be used".into(),
                };
                let found = if names.is_empty() { "none".into() } else { names.join(", ") };
                Err(Error::NoDevice { wanted, found })
            }
        }
    }

    fn candidate(&self, index: usize, handle: vk::PhysicalDevice) -> Result<Candidate, Error> {
        // SAFETY: the handle is one of this instance's.
        let properties = unsafe { self.instance.get_physical_device_properties(handle) };
        // SAFETY: as above.
        let families = unsafe { self.instance.get_physical_device_queue_family_properties(handle) };
        let family = family(&families);
        let version = properties.api_version;
        let vulkan = [
            vk::api_version_major(version),
            vk::api_version_minor(version),
            vk::api_version_patch(version),
        ];
        let mut candidate = Candidate {
            found: Found {
                index,
                name: text(&properties.device_name),
                kind: kind(properties.device_type),
                vulkan,
                driver: format!("version {:#x}", properties.driver_version),
                compute_queues: family.map_or(0, |family| families[family].queue_count),
                imports: false,
                missing: None,
            },
            handle,
            family: family.unwrap_or(0) as u32,
            limits: properties.limits,
            float64: false,
            robust_bindings: false,
            import_alignment: None,
        };
        candidate.found.missing = match (vulkan < [1, 2, 0], family) {
            (true, _) => Some(format!("Vulkan 1.2: it has {}.{}", vulkan[0], vulkan[1])),
            (_, None) => Some("a queue for computing".into()),
            _ => self.look_closer(&mut candidate)?,
        };
        Ok(candidate)
    }

    /// Fills in what only Vulkan 1.2 tells. Returns what is missing.
    fn look_closer(&self, candidate: &mut Candidate) -> Result<Option<String>, Error> {
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
        // SAFETY: the device has Vulkan 1.2, which knows both structures.
        unsafe {
            self.instance.get_physical_device_properties2(candidate.handle, &mut properties);
        }
        candidate.found.driver =
            format!("{} {}", text(&driver.driver_name), text(&driver.driver_info));

        // SAFETY: the handle is one of this instance's.
        let extensions =
            unsafe { self.instance.enumerate_device_extension_properties(candidate.handle) };
        let extensions = extensions.map_err(Error::of("vkEnumerateDeviceExtensionProperties"))?;
        let has = |name| extensions.iter().any(|one| one.extension_name_as_c_str() == Ok(name));
        let extended = has(vk::EXT_ROBUSTNESS2_NAME);
        if has(vk::EXT_EXTERNAL_MEMORY_HOST_NAME) {
            candidate.import_alignment = self.import_alignment(candidate.handle);
            candidate.found.imports = candidate.import_alignment.is_some();
        }

        let mut robust = vk::PhysicalDeviceRobustness2FeaturesEXT::default();
        let mut newer = vk::PhysicalDeviceVulkan12Features::default();
        let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut newer);
        if extended {
            features = features.push_next(&mut robust);
        }
        // SAFETY: the device knows all structures of the chain.
        unsafe { self.instance.get_physical_device_features2(candidate.handle, &mut features) };
        let basic = features.features;
        candidate.float64 = basic.shader_float64 == vk::TRUE;
        candidate.robust_bindings = robust.robust_buffer_access2 == vk::TRUE;

        let limits = &candidate.limits;
        let group =
            limits.max_compute_work_group_invocations.min(limits.max_compute_work_group_size[0]);
        Ok(if newer.timeline_semaphore != vk::TRUE {
            Some("timeline semaphores".into())
        } else if basic.robust_buffer_access != vk::TRUE {
            Some("robust buffer access".into())
        } else if group < GROUP_INVOCATIONS {
            Some(format!("work groups of {GROUP_INVOCATIONS}: it has {group}"))
        } else {
            None
        })
    }

    /// Returns the alignment of the start and the end of memory for a storage buffer of this
    /// device, which has the extension; `None` if it takes none.
    fn import_alignment(&self, handle: vk::PhysicalDevice) -> Option<u64> {
        let kind = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;
        let info = vk::PhysicalDeviceExternalBufferInfo::default()
            .usage(vk::BufferUsageFlags::STORAGE_BUFFER)
            .handle_type(kind);
        let mut buffers = vk::ExternalBufferProperties::default();
        let mut host = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut host);
        // SAFETY: the device has Vulkan 1.2 and the extension, which know all of this.
        unsafe {
            self.instance.get_physical_device_properties2(handle, &mut properties);
            self.instance.get_physical_device_external_buffer_properties(
                handle,
                &info,
                &mut buffers,
            );
        }
        let offers = buffers.external_memory_properties.external_memory_features;
        let fits = offers.contains(vk::ExternalMemoryFeatureFlags::IMPORTABLE)
            && !offers.contains(vk::ExternalMemoryFeatureFlags::DEDICATED_ONLY);
        fits.then_some(host.min_imported_host_pointer_alignment.max(1))
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: whatever was made from the instance is gone: it borrowed or owned this.
        unsafe { self.instance.destroy_instance(None) };
    }
}

/// The family with queues for computing only, or else for computing, too.
fn family(families: &[vk::QueueFamilyProperties]) -> Option<usize> {
    let computes = |family: &vk::QueueFamilyProperties| {
        family.queue_count > 0 && family.queue_flags.contains(vk::QueueFlags::COMPUTE)
    };
    let alone = families.iter().position(|family| {
        computes(family) && !family.queue_flags.contains(vk::QueueFlags::GRAPHICS)
    });
    alone.or_else(|| families.iter().position(computes))
}

fn kind(kind: vk::PhysicalDeviceType) -> Kind {
    match kind {
        vk::PhysicalDeviceType::DISCRETE_GPU => Kind::Discrete,
        vk::PhysicalDeviceType::INTEGRATED_GPU => Kind::Integrated,
        vk::PhysicalDeviceType::VIRTUAL_GPU => Kind::Virtual,
        vk::PhysicalDeviceType::CPU => Kind::Cpu,
        _ => Kind::Other,
    }
}

fn describe(candidate: &Candidate) -> String {
    format!("{} {:?}", candidate.found.index, candidate.found.name)
}

fn no_driver(result: vk::Result) -> Error {
    match result {
        vk::Result::ERROR_INCOMPATIBLE_DRIVER | vk::Result::ERROR_INITIALIZATION_FAILED => {
            Error::Driver(result.to_string())
        }
        _ => Error::Call { call: "vkCreateInstance", result },
    }
}

/// Text that ends at the first zero, or where the array ends.
fn text(array: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = array.iter().map(|byte| *byte as u8).chain([0]).collect();
    CStr::from_bytes_until_nul(&bytes)
        .map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned())
}
