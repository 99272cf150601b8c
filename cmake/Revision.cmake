# Writes OUT, a source file that says which revision of SOURCE this is, if it says something new. Run
# at build time: cmake -DSOURCE=... -DOUT=... -P Revision.cmake
set(revision "")
find_program(git git)
if(git)
  execute_process(COMMAND ${git} -C ${SOURCE} describe --always --dirty --abbrev=10
    OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
endif()
if(revision STREQUAL "" OR failed)
  set(revision "unknown")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT
  "#include \"bench/macro/revision.h\"\n\nnamespace pulse {\nconst char* SourceRevision() { return \"${revision}\"; }\n}  // namespace pulse\n")
