# The C libraries of Keeptime: find_package(keeptime) gives the targets keeptime::keeptime, the client
# of the accelerator server, and keeptime::bandwidth, the memory-bandwidth lock.
foreach(library IN ITEMS keeptime bandwidth)
  if(NOT TARGET keeptime::${library})
    set(name libkeeptime)
    if(library STREQUAL bandwidth)
      set(name libkeeptime_bandwidth)
    endif()
    add_library(keeptime::${library} SHARED IMPORTED)
    set_target_properties(keeptime::${library} PROPERTIES
      IMPORTED_LOCATION "/usr/lib/@TRIPLET@/${name}.so.0"
      INTERFACE_INCLUDE_DIRECTORIES "/usr/include")
  endif()
endforeach()
set(keeptime_VERSION "@VERSION@")
