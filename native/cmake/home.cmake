# CANN's libraries as the simulator plays them: `aiocann sim-home` copies them into a folder that is laid out like
# an installation of CANN. One small source, compiled for the list of functions of each.
set(home_output "${AIOCANN_OUTPUT}/home")
foreach(library ascendcl acl_rt acl_rt_impl nnopbase opapi opapi_math opapi_nn opapi_cv opapi_transformer
                acl_op_compiler)
  set(target aiocann_home_${library})
  add_library(${target} SHARED sim/home/forward.c)
  target_compile_definitions(${target} PRIVATE "AIOCANN_FORWARD=\"forward/${library}.inc\"")
  target_include_directories(${target} PRIVATE "${AIOCANN_GENERATED}")
  target_link_libraries(${target} PRIVATE aiocann_warnings ${CMAKE_DL_LIBS})
  aiocann_export_only(${target} "acl*" "aiocann_sim_*")
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${library} LIBRARY_OUTPUT_DIRECTORY "${home_output}"
                                             BUILD_WITH_INSTALL_RPATH OFF SKIP_BUILD_RPATH ON INSTALL_RPATH "")
  add_dependencies(${target} acl_headers)
  install(TARGETS ${target} LIBRARY DESTINATION aiocann/home)
endforeach()
install(FILES "${AIOCANN_GENERATED}/acl_abi.h" DESTINATION aiocann/home)
