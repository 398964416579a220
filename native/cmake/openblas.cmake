# OpenBLAS comes from the Python package scipy-openblas32, a build requirement. Its library is copied beside
# the simulator under a private name, with its licence; the simulator opens it by path (RTLD_LOCAL), so that
# neither NumPy's copy nor anyone else's is ever confused with it.
execute_process(
  COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/cmake/find_openblas.py"
  OUTPUT_VARIABLE openblas_files
  RESULT_VARIABLE openblas_failed
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(openblas_failed)
  message(FATAL_ERROR "the Python package scipy-openblas32 is needed by ${Python_EXECUTABLE}: "
                      "pip install scipy-openblas32")
endif()
list(GET openblas_files 0 openblas_library)
list(GET openblas_files 1 openblas_licence)
message(STATUS "OpenBLAS: ${openblas_library}")

set(openblas_copies "${AIOCANN_OUTPUT}/libaiocann_openblas.so"
                    "${AIOCANN_OUTPUT}/libaiocann_openblas.LICENSE.txt")
add_custom_command(
  OUTPUT ${openblas_copies}
  COMMAND ${CMAKE_COMMAND} -E make_directory "${AIOCANN_OUTPUT}"
  COMMAND ${CMAKE_COMMAND} -E copy "${openblas_library}" "${AIOCANN_OUTPUT}/libaiocann_openblas.so"
  COMMAND ${CMAKE_COMMAND} -E copy "${openblas_licence}"
          "${AIOCANN_OUTPUT}/libaiocann_openblas.LICENSE.txt"
  DEPENDS "${openblas_library}" "${openblas_licence}"
  COMMENT "Copying OpenBLAS")
add_custom_target(aiocann_openblas ALL DEPENDS ${openblas_copies})
install(FILES ${openblas_copies} DESTINATION aiocann)
