# build/docs: what the tables say, for people.
koine_host_tool(docgen ${PROJECT_SOURCE_DIR}/tools/docgen.c)
set(_docs ${PROJECT_BINARY_DIR}/docs)
file(MAKE_DIRECTORY ${_docs})
file(GLOB _doc_defs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/dialect/*.def ${PROJECT_SOURCE_DIR}/cli/*.def)
add_custom_command(OUTPUT ${_docs}/ops.md ${_docs}/command.md DEPENDS ${docgen_DEPENDS} ${_doc_defs}
  COMMAND ${docgen_COMMAND} -o ${_docs} COMMENT "Writing ops.md and command.md" VERBATIM)
set(_pages ${_docs}/ops.md ${_docs}/command.md)
# Pages with commands are written with what the command of this build prints.
if(TARGET koine_command AND NOT CMAKE_CROSSCOMPILING)
  koine_host_tool(docfill ${PROJECT_SOURCE_DIR}/tools/docfill.c)
  file(GLOB _programs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*.kn)
  add_custom_command(OUTPUT ${_docs}/pipeline.md
    DEPENDS ${docfill_DEPENDS} koine_command ${PROJECT_SOURCE_DIR}/docs/pipeline.md ${_programs}
    COMMAND ${docfill_COMMAND} $<TARGET_FILE:koine_command> ${PROJECT_SOURCE_DIR}/docs/pipeline.md ${_docs}/pipeline.md
    COMMENT "Writing pipeline.md" VERBATIM)
  list(APPEND _pages ${_docs}/pipeline.md)
endif()
# The page of the rules is written by the test that counts their firings: it has them from the corpus.
if(KOINE_TESTS AND KOINE_RULES AND NOT CMAKE_CROSSCOMPILING)
  file(GLOB_RECURSE _programs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*.kn)
  add_custom_command(OUTPUT ${_docs}/rules.md DEPENDS test_rules_firings ${_programs}
    COMMAND test_rules_firings --write ${_docs}/rules.md COMMENT "Writing rules.md" VERBATIM)
  list(APPEND _pages ${_docs}/rules.md)
endif()
# So is the table of what there is for each op.
if(KOINE_TESTS AND NOT CMAKE_CROSSCOMPILING)
  file(GLOB _programs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/ir/ops/*.kn)
  add_custom_command(OUTPUT ${_docs}/coverage.md DEPENDS test_ir_coverage ${_programs}
    COMMAND test_ir_coverage --write ${_docs}/coverage.md COMMENT "Writing coverage.md" VERBATIM)
  list(APPEND _pages ${_docs}/coverage.md)
endif()
add_custom_target(koine_docs ALL DEPENDS ${_pages})
