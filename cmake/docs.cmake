# build/docs: what the tables say, for people.
koine_host_tool(docgen ${PROJECT_SOURCE_DIR}/tools/docgen.c)
set(_docs ${PROJECT_BINARY_DIR}/docs)
file(MAKE_DIRECTORY ${_docs})
file(GLOB _doc_defs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/dialect/*.def ${PROJECT_SOURCE_DIR}/cli/*.def)
add_custom_command(OUTPUT ${_docs}/ops.md ${_docs}/command.md DEPENDS ${docgen_DEPENDS} ${_doc_defs}
  COMMAND ${docgen_COMMAND} -o ${_docs} COMMENT "Writing ops.md and command.md" VERBATIM)
add_custom_target(koine_docs ALL DEPENDS ${_docs}/ops.md ${_docs}/command.md)
