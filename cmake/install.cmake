# What `cmake --install` lays down: header, both libraries, the command, koine::koine for find_package, koine.pc.
install(FILES include/koine.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS koine_static koine_shared EXPORT koine
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
