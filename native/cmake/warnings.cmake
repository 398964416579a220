# Warnings are errors, for our own code only.
add_library(aiocann_warnings INTERFACE)
target_compile_options(aiocann_warnings INTERFACE -Wall -Wextra -Werror)

# Exports the symbols that match the patterns and nothing else, whatever the standard library's headers mark
# visible.
function(aiocann_export_only target)
  list(JOIN ARGN "; " patterns)
  set(script "${PROJECT_BINARY_DIR}/generated/${target}.map")
  file(GENERATE OUTPUT "${script}" CONTENT "{ global: ${patterns}; local: *; };\n")
  target_link_options(${target} PRIVATE "-Wl,--version-script=${script}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${script}")
  if(NOT AIOCANN_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
endfunction()
