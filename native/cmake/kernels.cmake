# Kernels that are compiled once for each level of the CPU's vector instructions and chosen at run time.
#
# A file sim/kernels/NAME.variant.cpp sees AIOCANN_VARIANT as v2, v3 or v4 (x86-64 levels) or base (elsewhere)
# and must put everything it defines into a namespace of that name. It must keep away from inline functions
# of headers that other files use too: the linker keeps one copy of those for all.
#
# sim/kernels/flags.cmake, where it exists, may set for this build:
#   AIOCANN_KERNEL_FLAGS            flags for every variant file
#   AIOCANN_KERNEL_FLAGS_<variant>  flags for one variant, e.g. AIOCANN_KERNEL_FLAGS_v4
#   AIOCANN_KERNEL_FLAGS_<NAME>     flags for one file, e.g. AIOCANN_KERNEL_FLAGS_elementwise

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(AIOCANN_VARIANTS v2 v3 v4)
  foreach(variant ${AIOCANN_VARIANTS})
    set(AIOCANN_MARCH_${variant} -march=x86-64-${variant})
  endforeach()
else()
  set(AIOCANN_VARIANTS base)
  set(AIOCANN_MARCH_base "")
endif()
include("${CMAKE_CURRENT_SOURCE_DIR}/sim/kernels/flags.cmake" OPTIONAL)

# Adds one kernel file: an object library for each variant.
function(sim_kernel_variants source)
  get_filename_component(stem "${source}" NAME)
  string(REPLACE ".variant.cpp" "" stem "${stem}")
  foreach(variant ${AIOCANN_VARIANTS})
    set(name aiocann_kernel_${stem}_${variant})
    aiocann_objects(${name} "${source}")
    target_compile_definitions(${name} PRIVATE AIOCANN_VARIANT=${variant})
    target_compile_options(
      ${name} PRIVATE ${AIOCANN_O3} ${AIOCANN_MARCH_${variant}} ${AIOCANN_KERNEL_FLAGS}
                      ${AIOCANN_KERNEL_FLAGS_${variant}} ${AIOCANN_KERNEL_FLAGS_${stem}})
    set_property(GLOBAL APPEND PROPERTY AIOCANN_KERNELS_${variant} ${name})
  endforeach()
endfunction()

# Appends the variants' objects to a list, the lowest level first.
function(sim_variant_objects list)
  set(objects ${${list}})
  foreach(variant ${AIOCANN_VARIANTS})
    get_property(names GLOBAL PROPERTY AIOCANN_KERNELS_${variant})
    foreach(name ${names})
      list(APPEND objects $<TARGET_OBJECTS:${name}>)
    endforeach()
  endforeach()
  set(${list} ${objects} PARENT_SCOPE)
endfunction()
