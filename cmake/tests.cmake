# The tests. tests/FOLDER/test_SUBJECT.c is the program FOLDER.SUBJECT; other tests/FOLDER/*.c are helpers any of them
# may call. A test that exits with 77 was skipped and has said why.

file(GLOB _tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*/test_*.c)
file(GLOB _helpers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*/*.c)
if(_tests)
  list(REMOVE_ITEM _helpers ${_tests})
endif()
list(FILTER _helpers EXCLUDE REGEX "/tests/(packaging|fuzz)/")

add_library(koine_test_helpers STATIC EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/check.c ${_helpers} ${KOINE_PROOF})
target_link_libraries(koine_test_helpers PRIVATE koine_flags)
target_include_directories(koine_test_helpers PRIVATE ${PROJECT_SOURCE_DIR}/tests)
if(TARGET koine_rules_made)
  add_dependencies(koine_test_helpers koine_rules_made)
endif()

foreach(_source IN LISTS _tests)
  get_filename_component(_dir ${_source} DIRECTORY)
  get_filename_component(_folder ${_dir} NAME)
  get_filename_component(_name ${_source} NAME_WE)
  string(REGEX REPLACE "^test_" "" _name ${_name})
  set(_target test_${_folder}_${_name})
  add_executable(${_target} ${_source})
  target_include_directories(${_target} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/cli)
  target_compile_definitions(${_target} PRIVATE KN_TEST_SOURCE="${PROJECT_SOURCE_DIR}"
    KN_TEST_BUILD="${PROJECT_BINARY_DIR}" $<$<BOOL:${ZLIB_FOUND}>:KN_HAVE_ZLIB=1>)
  target_link_libraries(${_target} PRIVATE koine_test_helpers koine_static koine_flags Threads::Threads
    $<$<BOOL:${UNIX}>:m> $<$<BOOL:${ZLIB_FOUND}>:ZLIB::ZLIB>)
  set_target_properties(${_target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(TARGET koine_command)
    add_dependencies(${_target} koine_command)
  endif()
  add_test(NAME ${_folder}.${_name} COMMAND ${_target} WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  set_tests_properties(${_folder}.${_name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 200)
endforeach()
