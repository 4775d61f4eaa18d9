//! Users that may open a socket's file: its mode and group, and an access list if needed.
//!
//! The kernel lets a process connect that may write to the socket's file and pass through the
//! folders above it. A mode names one group; so several groups, or users besides the owner, stand
//! in the file's access list (`system.posix_acl_access`, as `setfacl` writes it).

use super::{Closed, failed, io};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Users that may open a socket's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Openers {
    /// Permissions of the file.
    pub mode: u32,
    /// The group that it belongs to; none: the only one of `groups`, or else the process' own.
    pub group: Option<u32>,
    /// Users who may open it besides its owner and root.
    pub users: Vec<u32>,
    /// Groups whose members may open it.
    pub groups: Vec<u32>,
}

/// The attribute with the access list of a file.
const ACCESS_LIST: &str = "system.posix_acl_access";
const READ_WRITE: u16 = 6;
/// Version of the access list's format, as the kernel has it.
const ACL_VERSION: u32 = 2;
/// The number of an entry that has none.
const NOBODY: u32 = u32::MAX;

/// Tags of an access list, in the order in which its entries have to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
enum Tag {
    Owner = 0x01,
    User = 0x02,
    OwningGroup = 0x04,
    Group = 0x08,
    Mask = 0x10,
    Others = 0x20,
}

impl Openers {
    /// Only the owner, and the group if the mode says so.
    pub fn mode(mode: u32) -> Openers {
        Openers { mode, group: None, users: Vec::new(), groups: Vec::new() }
    }

    /// Returns the users and groups for the access list, without the owner and root.
    fn named(&self) -> (Vec<u32>, Vec<u32>) {
        let own = rustix::process::geteuid().as_raw();
        let sorted = |mut ids: Vec<u32>| {
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        let users = self.users.iter().copied().filter(|uid| ![0, own].contains(uid)).collect();
        let is_owning = |gid: &u32| self.group == Some(*gid) && self.mode & 0o060 == 0o060;
        let groups = self.groups.iter().copied().filter(|gid| !is_owning(gid)).collect();
        (sorted(users), sorted(groups))
    }

    /// Sets the group, the mode and the access list of a file. An access list that it has goes first.
    pub(super) fn apply(&self, path: &Path) -> Result<(), Closed> {
        let (users, groups) = self.named();
        let mut openers = self.clone();
        // Without one, or on a file system without them, there is nothing to remove.
        let _ = rustix::fs::removexattr(path, ACCESS_LIST);
        if let (None, [], [only]) = (self.group, &users[..], &groups[..]) {
            if std::os::unix::fs::chown(path, None, Some(*only)).is_ok() {
                (openers.group, openers.mode) = (Some(*only), self.mode | 0o060);
            }
        }
        std::os::unix::fs::chown(path, None, openers.group).map_err(io("chown"))?;
        let permissions = std::fs::Permissions::from_mode(openers.mode);
        std::fs::set_permissions(path, permissions).map_err(io("chmod"))?;
        let (users, groups) = openers.named();
        if openers.mode & 0o006 == 0o006 || users.is_empty() && groups.is_empty() {
            return Ok(());
        }
        let list = access_list(openers.mode, &users, &groups);
        let set = rustix::fs::setxattr(path, ACCESS_LIST, &list, XattrFlags::empty());
        set.map_err(|errno| match errno {
            Errno::NOTSUP => Closed::NoAccessList,
            errno => failed("setxattr(system.posix_acl_access)")(errno),
        })
    }

    /// The first folder above the socket that lets only its owner or group through, if there is
    /// any other user who may connect.
    pub(super) fn blocked_by(&self, socket: &Path) -> Option<(PathBuf, u32)> {
        let (users, groups) = self.named();
        if users.is_empty() && groups.is_empty() && self.mode & 0o006 == 0 {
            return None;
        }
        let path = std::path::absolute(socket).ok()?;
        let blocks = |folder: &Path| {
            let mode = std::fs::metadata(folder).ok()?.permissions().mode() & 0o777;
            (mode & 0o001 == 0).then(|| (folder.to_path_buf(), mode))
        };
        path.ancestors().skip(1).find_map(blocks)
    }
}

/// The folder of a socket. Those of its folders that are missing are made so that everybody may
/// pass through, and only their owner may change what is in them.
///
/// # Errors
/// [`Closed::Call`] when the kernel refuses.
pub fn make_folder(folder: &Path) -> Result<(), Closed> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent() {
        make_folder(above)?;
    }
    match std::fs::DirBuilder::new().mode(0o755).create(folder) {
        // Whatever the mask of this process is.
        Ok(()) => std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))
            .map_err(io("chmod")),
        Err(_) if folder.is_dir() => Ok(()),
        Err(error) => Err(io("mkdir")(error)),
    }
}

/// ```text
///   header    version u32
///   entry     tag u16, permissions u16, number u32      little-endian, in the order of the tags
/// ```
fn access_list(mode: u32, users: &[u32], groups: &[u32]) -> Vec<u8> {
    let part = |shift: u32| (mode >> shift & 7) as u16;
    let mut list = ACL_VERSION.to_le_bytes().to_vec();
    let mut add = |tag: Tag, permissions: u16, id: u32| {
        list.extend((tag as u16).to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    };
    add(Tag::Owner, part(6), NOBODY);
    users.iter().for_each(|uid| add(Tag::User, READ_WRITE, *uid));
    add(Tag::OwningGroup, part(3), NOBODY);
    groups.iter().for_each(|gid| add(Tag::Group, READ_WRITE, *gid));
    add(Tag::Mask, READ_WRITE | part(3), NOBODY);
    add(Tag::Others, part(0), NOBODY);
    list
}
