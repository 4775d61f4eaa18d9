//! The packages for ROS 2, built by colcon with Debian's ament_cmake and generators of messages.
//! `crates/ros/keeptime_ros/test/workspace` has what Debian has not, above all rclcpp's stand-in.

use std::path::Path;

use crate::debian;
use crate::step::Step;

/// A file that shows that it is installed, and the package of Debian.
const NEEDED: [(&str, &str); 9] = [
    ("/usr/bin/colcon", "colcon"),
    ("/usr/lib/python3/dist-packages/colcon_ros", "python3-colcon-ros"),
    ("/usr/lib/python3/dist-packages/colcon_package_selection", "python3-colcon-package-selection"),
    ("/usr/lib/python3/dist-packages/colcon_recursive_crawl", "python3-colcon-recursive-crawl"),
    ("/usr/lib/python3/dist-packages/colcon_test_result", "python3-colcon-test-result"),
    ("/usr/share/ament_cmake", "ament-cmake"),
    ("/usr/share/rosidl_generator_cpp", "rosidl-generator-c-cpp"),
    ("/usr/share/rosidl_runtime_cpp", "librosidl-runtime-c-cpp-dev"),
    (
        "/usr/share/rosidl_typesupport_introspection_cpp",
        "librosidl-typesupport-introspection-c-cpp-dev",
    ),
];

/// Builds `keeptime_msgs` and `keeptime_ros`, and runs the tests of the latter, or says why not.
///
/// # Errors
/// If one is not built, or a test fails.
pub(crate) fn tests() -> anyhow::Result<()> {
    let is_there = || NEEDED.iter().all(|(file, _)| Path::new(file).exists());
    let packages = NEEDED.map(|(_, package)| package);
    if !debian::have(&packages, is_there) {
        eprintln!("==> SKIP: the packages for ROS 2 by colcon: no {}", packages.join(" "));
        return Ok(());
    }
    Step::cargo("build -p keeptime-accel-c").run()?;
    let target = std::path::absolute(crate::target())?;
    let folder = target.join("colcon");
    colcon(&folder, "build").args(["--packages-skip", "keeptime_ros"]).args(CMAKE).run()?;
    colcon(&folder, "build")
        .args(["--packages-select", "keeptime_ros"])
        .args(CMAKE)
        .arg(format!("-DKEEPTIME_ROOT={}", crate::root().display()))
        .arg(format!("-DKEEPTIME_LIBRARY={}", target.join("debug/libkeeptime.so").display()))
        .run()?;
    // Its status says whether tests could be run, the next one's whether they passed.
    colcon(&folder, "test").args(["--packages-select", "keeptime_ros"]).run()?;
    let results = ["test-result", "--all", "--verbose", "--test-result-base"];
    program(&folder).args(results).arg(folder.join("build/keeptime_ros")).run()
}

/// Debian's Python, since another one would not have ament's modules.
const CMAKE: [&str; 2] = ["--cmake-args", "-DPython3_EXECUTABLE=/usr/bin/python3"];

/// A verb of colcon on the packages, with all that it writes in one folder.
fn colcon(folder: &Path, verb: &str) -> Step {
    program(folder)
        .arg(verb)
        .args(["--base-paths", "crates/ros/keeptime_msgs", "crates/ros/keeptime_ros"])
        .args(["crates/ros/keeptime_ros/test/workspace", "--build-base"])
        .arg(folder.join("build"))
        .arg("--install-base")
        .arg(folder.join("install"))
}

fn program(folder: &Path) -> Step {
    Step::program("/usr/bin/colcon").arg("--log-base").arg(folder.join("log"))
}
