# The tests. tests/FOLDER/test_SUBJECT.c is the program FOLDER.SUBJECT; other tests/FOLDER/*.c are helpers any of them
# may call. A test that exits with 77 was skipped and has said why.

set(CMAKE_UNITY_BUILD OFF) # the tests' sources, of which each asks for what it needs, are not joined
set(KOINE_TEST_TIMEOUT 200 CACHE STRING "Seconds a test program may take")
set(KOINE_TESTS_WITHOUT "" CACHE STRING "Test programs that are not built, a regular expression of FOLDER.NAME")
mark_as_advanced(KOINE_TEST_TIMEOUT KOINE_TESTS_WITHOUT)

file(GLOB _tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*/test_*.c)
file(GLOB _helpers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*/*.c)
foreach(_target IN ITEMS x86) # the tests of a target go where it goes
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/src/target/${_target})
    list(FILTER _tests EXCLUDE REGEX "/tests/${_target}/")
    list(FILTER _helpers EXCLUDE REGEX "/tests/${_target}/")
  endif()
endforeach()
if(_tests)
  list(REMOVE_ITEM _helpers ${_tests})
endif()
list(FILTER _helpers EXCLUDE REGEX "/tests/packaging/")

# A disassembler by others, to hold the encoder against.
find_path(KOINE_ZYDIS_INCLUDE Zydis/Zydis.h)
find_library(KOINE_ZYDIS_LIBRARY Zydis)
mark_as_advanced(KOINE_ZYDIS_INCLUDE KOINE_ZYDIS_LIBRARY)
set(_zydis OFF)
if(KOINE_ZYDIS_INCLUDE AND KOINE_ZYDIS_LIBRARY)
  include(CheckCSourceCompiles) # before version 4 it was another interface
  set(CMAKE_REQUIRED_INCLUDES ${KOINE_ZYDIS_INCLUDE})
  set(CMAKE_REQUIRED_LIBRARIES ${KOINE_ZYDIS_LIBRARY})
  check_c_source_compiles("#include <Zydis/Zydis.h>
    int main(void) { ZydisEncoderRequest r; (void)r; return ZydisDecoderDecodeFull == 0; }" KOINE_ZYDIS_4)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_LIBRARIES)
  set(_zydis ${KOINE_ZYDIS_4})
endif()

# A prover by others, for the rules. It has nothing to say about how this build was instrumented.
find_path(KOINE_Z3_INCLUDE z3.h)
find_library(KOINE_Z3_LIBRARY z3)
mark_as_advanced(KOINE_Z3_INCLUDE KOINE_Z3_LIBRARY)

add_library(koine_test_helpers STATIC EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/check.c ${_helpers} ${KOINE_PROOF})
target_link_libraries(koine_test_helpers PRIVATE koine_flags)
target_include_directories(koine_test_helpers PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(koine_test_helpers PRIVATE KN_TEST_SOURCE="${PROJECT_SOURCE_DIR}")
if(TARGET koine_rules_made)
  add_dependencies(koine_test_helpers koine_rules_made)
endif()

foreach(_source IN LISTS _tests)
  get_filename_component(_dir ${_source} DIRECTORY)
  get_filename_component(_folder ${_dir} NAME)
  get_filename_component(_name ${_source} NAME_WE)
  string(REGEX REPLACE "^test_" "" _name ${_name})
  if(KOINE_TESTS_WITHOUT AND "${_folder}.${_name}" MATCHES "${KOINE_TESTS_WITHOUT}")
    continue()
  endif()
  set(_target test_${_folder}_${_name})
  add_executable(${_target} ${_source})
  target_include_directories(${_target} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/cli)
  target_compile_definitions(${_target} PRIVATE KN_TEST_SOURCE="${PROJECT_SOURCE_DIR}"
    KN_TEST_BUILD="${PROJECT_BINARY_DIR}" $<$<BOOL:${ZLIB_FOUND}>:KN_HAVE_ZLIB=1>)
  target_link_libraries(${_target} PRIVATE koine_test_helpers koine_static koine_flags Threads::Threads
    $<$<BOOL:${UNIX}>:m> $<$<BOOL:${ZLIB_FOUND}>:ZLIB::ZLIB>)
  if(KOINE_SANITIZE) # the library is optimised; a test program takes less time to run than to optimise
    target_compile_options(${_target} PRIVATE -O0)
  endif()
  if(_folder STREQUAL "x86" AND _zydis)
    target_compile_definitions(${_target} PRIVATE KN_HAVE_ZYDIS=1)
    target_include_directories(${_target} SYSTEM PRIVATE ${KOINE_ZYDIS_INCLUDE})
    target_link_libraries(${_target} PRIVATE ${KOINE_ZYDIS_LIBRARY})
  endif()
  if(_target STREQUAL "test_rules_z3" AND KOINE_Z3_INCLUDE AND KOINE_Z3_LIBRARY AND NOT KOINE_VARIANT)
    target_sources(${_target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/rules/z3/translate.c)
    target_compile_definitions(${_target} PRIVATE KN_HAVE_Z3=1)
    target_include_directories(${_target} SYSTEM PRIVATE ${KOINE_Z3_INCLUDE})
    target_link_libraries(${_target} PRIVATE ${KOINE_Z3_LIBRARY})
  endif()
  set_target_properties(${_target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(TARGET koine_command)
    add_dependencies(${_target} koine_command)
  endif()
  add_test(NAME ${_folder}.${_name} COMMAND ${_target} WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  set_tests_properties(${_folder}.${_name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${KOINE_TEST_TIMEOUT}
    ENVIRONMENT "KOINE_CACHE=off")
endforeach()

# The longest first, that none of them is left alone at the end.
foreach(_test IN ITEMS ir.stages api.memory rules.firings x86.lanes)
  if(TEST ${_test})
    set_tests_properties(${_test} PROPERTIES COST 30)
  endif()
endforeach()

# The C compiler over all kernels of the corpus, and over every op on every dtype.
foreach(_test IN ITEMS "stages --all" "dtypes c")
  separate_arguments(_test)
  list(POP_FRONT _test _name)
  if(TARGET test_ir_${_name})
    add_test(NAME ir.${_name}_compiled COMMAND test_ir_${_name} ${_test}
      WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    set_tests_properties(ir.${_name}_compiled PROPERTIES LABELS full TIMEOUT 1200 ENVIRONMENT "KOINE_CACHE=off")
  endif()
endforeach()

# Over all 2^32 values of f32, and a large sample of f64, a function a test: some minutes each.
if(TARGET test_api_accuracy)
  foreach(_name IN ITEMS exp2 log2 sin pow exp log sqrt rsqrt recip trunc tanh erf sigmoid silu gelu)
    add_test(NAME accuracy.${_name} COMMAND test_api_accuracy --all ${_name}
      WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    set_tests_properties(accuracy.${_name} PROPERTIES LABELS full TIMEOUT 3600 ENVIRONMENT "KOINE_CACHE=off")
  endforeach()
endif()
if(TARGET test_rules_bare)
  add_test(NAME accuracy.round COMMAND test_rules_bare --all WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  set_tests_properties(accuracy.round PROPERTIES LABELS full TIMEOUT 3600 ENVIRONMENT "KOINE_CACHE=off")
endif()

if(TARGET test_rules_z3)
  add_test(NAME rules.widths COMMAND test_rules_z3 --all WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  set_tests_properties(rules.widths PROPERTIES LABELS full SKIP_RETURN_CODE 77 TIMEOUT 3600)
endif()
if(TARGET test_rules_proofs)
  add_test(NAME rules.f32 COMMAND test_rules_proofs --f32 WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  set_tests_properties(rules.f32 PROPERTIES LABELS full TIMEOUT 3600)
endif()

# examples/*.c are what a user would write: koine.h alone. Built and run.
file(GLOB _examples CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.c)
foreach(_source IN LISTS _examples)
  get_filename_component(_name ${_source} NAME_WE)
  add_executable(example_${_name} ${_source})
  target_link_libraries(example_${_name} PRIVATE koine_static $<$<BOOL:${UNIX}>:m>)
  target_compile_options(example_${_name} PRIVATE
    $<$<C_COMPILER_ID:GNU,Clang,AppleClang>:-Wall;-Wextra;-Wpedantic> $<$<BOOL:${KOINE_WERROR}>:-Werror>)
  set_target_properties(example_${_name} PROPERTIES OUTPUT_NAME ${_name} C_STANDARD 11
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
  add_test(NAME examples.${_name} COMMAND example_${_name} WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
  set_tests_properties(examples.${_name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${KOINE_TEST_TIMEOUT})
endforeach()

# bench/bench_*.c: each prints its measurements. Built by `make bench` alone.
file(GLOB _benches CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/bench_*.c)
add_custom_target(bench)
foreach(_source IN LISTS _benches)
  get_filename_component(_name ${_source} NAME_WE)
  add_executable(${_name} EXCLUDE_FROM_ALL ${_source})
  target_link_libraries(${_name} PRIVATE koine_static koine_flags Threads::Threads $<$<BOOL:${UNIX}>:m>)
  set_target_properties(${_name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
  if(_name STREQUAL bench_products) # the peak beside which it is set
    target_sources(${_name} PRIVATE ${PROJECT_SOURCE_DIR}/cli/digits_peak.c)
    target_include_directories(${_name} PRIVATE ${PROJECT_SOURCE_DIR}/cli ${PROJECT_SOURCE_DIR}/src)
  endif()
  if(_name STREQUAL bench_target)
    file(GLOB _chance CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/chance*.c)
    target_sources(${_name} PRIVATE ${_chance})
  endif()
  add_custom_target(run_${_name} COMMAND ${_name} DEPENDS ${_name} USES_TERMINAL)
  add_dependencies(bench run_${_name})
endforeach()

# ---- tests of the project itself --------------------------------------------------------------------------------
# A variant is this project built another way: it runs the programs above, and nothing of what follows.
option(KOINE_VARIANT "This build is one that the tests of another build made" OFF)
if(KOINE_VARIANT)
  return()
endif()
set(_scripts ${PROJECT_SOURCE_DIR}/tests/packaging)
function(koine_script name)
  cmake_parse_arguments(A "" "SCRIPT" "ARGS" ${ARGN})
  add_test(NAME project.${name} COMMAND sh ${A_SCRIPT} ${A_ARGS})
  set_tests_properties(project.${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 280
    ENVIRONMENT "CC=${CMAKE_C_COMPILER};KOINE_CACHE=off")
endfunction()

koine_script(layering SCRIPT ${_scripts}/layering.sh ARGS ${PROJECT_SOURCE_DIR})
koine_script(style SCRIPT ${_scripts}/style.sh ARGS ${PROJECT_SOURCE_DIR})
koine_script(headers SCRIPT ${_scripts}/headers.sh ARGS ${PROJECT_SOURCE_DIR})
koine_script(symbols SCRIPT ${_scripts}/symbols.sh
  ARGS ${PROJECT_SOURCE_DIR} $<TARGET_FILE:koine_shared> $<TARGET_FILE:koine_static>)
koine_script(install SCRIPT ${_scripts}/install.sh ARGS ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
koine_script(subdirectory SCRIPT ${_scripts}/subdirectory.sh
  ARGS ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/subdirectory)
if(EXISTS ${PROJECT_SOURCE_DIR}/src/target/x86)
  koine_script(without_x86 SCRIPT ${_scripts}/without_x86.sh ARGS ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/without_x86)
endif()
koine_script(threads SCRIPT ${_scripts}/threads.sh ARGS ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})

if(KOINE_RULES)
  koine_script(rulegen SCRIPT ${_scripts}/rulegen.sh ARGS ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${KOINE_RULES})
endif()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/books)
koine_script(books SCRIPT ${_scripts}/books.sh ARGS ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/books
  ${PROJECT_SOURCE_DIR}/docs/add-an-op.md ${PROJECT_SOURCE_DIR}/docs/add-a-rule.md)
koine_script(pages SCRIPT ${_scripts}/pages.sh ARGS ${PROJECT_BINARY_DIR}/docs)
set_tests_properties(project.books PROPERTIES TIMEOUT 1200 COST 30)
if(TARGET test_api_manners)
  koine_script(trace SCRIPT ${_scripts}/trace.sh ARGS $<TARGET_FILE:test_api_manners> ${PROJECT_BINARY_DIR})
endif()

# One file of all: also proof that static names are distinct. In the order a program travels.
set(_ordered)
foreach(_folder IN ITEMS base dialect rewrite rules device target optimize lower runtime tensor nn format llm viz)
  set(_some ${KOINE_SOURCES})
  list(FILTER _some INCLUDE REGEX "^${PROJECT_SOURCE_DIR}/src/${_folder}/")
  list(SORT _some)
  list(APPEND _ordered ${_some})
endforeach()
set(_generated ${KOINE_GENERATED})
list(FILTER _generated INCLUDE REGEX "\\.c$")
koine_host_tool(amalgamate ${PROJECT_SOURCE_DIR}/tools/amalgamate.c)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/amalgamation)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/amalgamation/koine.c
  DEPENDS ${KOINE_SOURCES} ${KOINE_GENERATED} ${amalgamate_DEPENDS}
  COMMAND ${amalgamate_COMMAND} -o ${PROJECT_BINARY_DIR}/amalgamation/koine.c -I ${PROJECT_SOURCE_DIR}/src
    -I ${PROJECT_SOURCE_DIR}/include -I ${PROJECT_BINARY_DIR}/gen -k koine.h ${_ordered} ${_generated}
  COMMENT "Writing koine.c, the one-file form" VERBATIM)
add_custom_target(amalgamation ALL DEPENDS ${PROJECT_BINARY_DIR}/amalgamation/koine.c)
koine_script(amalgamation SCRIPT ${_scripts}/amalgamation.sh
  ARGS ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/amalgamation)

set(_programs)
foreach(_source IN LISTS _tests)
  if(_source MATCHES "/tests/([a-z]*)/test_(base|text|idx|npy|command|movement|random)\\.c$")
    list(APPEND _programs $<TARGET_FILE:test_${CMAKE_MATCH_1}_${CMAKE_MATCH_2}>)
  endif()
endforeach()
set(_on_targets SCRIPT ${PROJECT_SOURCE_DIR}/tests/api/on_targets.sh ARGS ${PROJECT_BINARY_DIR}/tests
  $<TARGET_FILE:koine_command>)
koine_script(on_targets ${_on_targets} x86:avx2 x86:avx2:regs=4 x86:avx512:regs=4)
koine_script(on_c ${_on_targets} c)
set_tests_properties(project.on_c PROPERTIES LABELS full TIMEOUT 1200)
koine_script(locale SCRIPT ${_scripts}/locale.sh ARGS ${PROJECT_BINARY_DIR} ${_programs})

# Sanitizers by clang where it has them, so that both compilers see the sources with warnings as errors.
find_program(KOINE_CLANG clang)
mark_as_advanced(KOINE_CLANG)
set(_clang)
set(_clang_sanitizes)
if(KOINE_CLANG)
  set(_clang -DCMAKE_C_COMPILER=${KOINE_CLANG})
  # Its sanitizers are a package of their own (libclang-rt-dev); without it the first compiler's serve.
  file(WRITE ${PROJECT_BINARY_DIR}/sanitizes.c "int main(void) { return 0; }\n")
  execute_process(COMMAND ${KOINE_CLANG} -fsanitize=address,undefined ${PROJECT_BINARY_DIR}/sanitizes.c
    -o ${PROJECT_BINARY_DIR}/sanitizes RESULT_VARIABLE _bad OUTPUT_QUIET ERROR_QUIET)
  if(_bad)
    message(STATUS "clang has no sanitizer libraries here: the sanitizer tests use ${CMAKE_C_COMPILER}")
  else()
    set(_clang_sanitizes ${_clang})
  endif()
endif()
function(koine_variant name without)
  set(tests "-LE full")
  if(without)
    string(APPEND tests " -E ${without}")
  endif()
  koine_script(${name} SCRIPT ${PROJECT_SOURCE_DIR}/cmake/variant.sh
    ARGS ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/${name} "${tests}" --
    "-DKOINE_TESTS_WITHOUT=${without}" -DCMAKE_UNITY_BUILD=ON -DCMAKE_BUILD_TYPE=Debug -DKOINE_DEBUG_VERIFY=ON -DKOINE_WERROR=ON ${ARGN})
  set_tests_properties(project.${name} PROPERTIES PROCESSORS 2)
endfunction()
koine_variant(asan "proofs|vectors|demo|options|shown|dtypes|accuracy|fuzz|symbolic|assembler" "-DCMAKE_C_FLAGS_DEBUG=-O1 -g1 -fno-inline" -DKOINE_SANITIZE=address,undefined
  ${_clang_sanitizes})
# Where a page fault takes long, so does memory that is not used again before 256 MB more are freed, the default. A test
# that sets options of its own for a program it runs has the defaults there.
set_tests_properties(project.asan PROPERTIES TIMEOUT 900
  ENVIRONMENT "CC=${CMAKE_C_COMPILER};KOINE_CACHE=off;ASAN_OPTIONS=quarantine_size_mb=16:malloc_context_size=8")
# What trains, proves or compiles hundreds of kernels would take the hostile build an hour; the rest covers its code.
koine_variant(hostile "^(examples|cli)|proofs|firings|stages|vectors|narrow|elementwise|shown|dtypes|accuracy|fuzz|symbolic|options|^x86" -DCMAKE_C_FLAGS_DEBUG=-O1 -DKOINE_HOSTILE=ON
  -DKOINE_TEST_TIMEOUT=60)
koine_variant(tsan "" "-DCMAKE_C_FLAGS_DEBUG=-O1 -g1" -DKOINE_SANITIZE=thread ${_clang_sanitizes})
set_tests_properties(project.tsan project.hostile PROPERTIES LABELS full TIMEOUT 1500)
