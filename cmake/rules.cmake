# Host tools. They run while the library is built, so they are compiled for the machine that builds: with the
# project's compiler, or, when cross compiling, with $CC_FOR_BUILD (default cc).

# koine_host_tool(NAME SOURCES...): sets NAME_COMMAND to what runs it and NAME_DEPENDS to what it depends on.
function(koine_host_tool name)
  if(CMAKE_CROSSCOMPILING)
    set(cc "$ENV{CC_FOR_BUILD}")
    if(NOT cc)
      set(cc cc)
    endif()
    set(exe ${PROJECT_BINARY_DIR}/host/${name})
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/host)
    add_custom_command(OUTPUT ${exe} DEPENDS ${ARGN}
      COMMAND ${cc} -std=c17 -O1 -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src ${ARGN} -o ${exe}
      COMMENT "Building the host tool ${name} with ${cc}" VERBATIM)
  else()
    add_executable(${name} ${ARGN})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_compile_options(${name} PRIVATE
      $<$<C_COMPILER_ID:GNU,Clang,AppleClang>:-Wall;-Wextra;-Wshadow> $<$<BOOL:${KOINE_WERROR}>:-Werror>)
    set(exe ${name})
  endif()
  set(${name}_COMMAND ${exe} PARENT_SCOPE)
  set(${name}_DEPENDS ${exe} PARENT_SCOPE)
endfunction()

# koine_rules(OUT): the C files made from src/**/*.rules, if there are any.
# rulegen -o DIR FILES... writes rules_gen.{h,c} for the library and rules_proof.{h,c} for the tests.
function(koine_rules out)
  file(GLOB tool CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/rulegen*.c)
  file(GLOB_RECURSE rules CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src/*.rules)
  list(SORT rules)
  if(NOT tool OR NOT rules)
    set(${out} "" PARENT_SCOPE)
    return()
  endif()
  koine_host_tool(rulegen ${tool})
  set(gen ${PROJECT_BINARY_DIR}/gen)
  file(MAKE_DIRECTORY ${gen})
  set(inputs ${rules})
  list(TRANSFORM inputs PREPEND ${PROJECT_SOURCE_DIR}/)
  file(GLOB defs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/dialect/*.def)
  set(made ${gen}/rules_gen.h ${gen}/rules_gen.c ${gen}/rules_proof.h ${gen}/rules_proof.c)
  add_custom_command(OUTPUT ${made} DEPENDS ${inputs} ${rulegen_DEPENDS} ${defs}
    COMMAND ${rulegen_COMMAND} -o ${gen} ${rules}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} COMMENT "Generating the rules" VERBATIM)
  add_custom_target(koine_rules_made DEPENDS ${made})
  set(${out} ${gen}/rules_gen.h ${gen}/rules_gen.c PARENT_SCOPE)
  set(KOINE_RULES ${rules} PARENT_SCOPE)
  set(KOINE_PROOF ${gen}/rules_proof.h ${gen}/rules_proof.c PARENT_SCOPE)
endfunction()
