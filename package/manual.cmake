# SPDX-License-Identifier: MIT
# cmake -DPROGRAM=... -DFOLDER=... -P manual.cmake: the man pages and the completion scripts that the
# program prints, in FOLDER. The overview names the commands that have a page.
execute_process(COMMAND ${PROGRAM} man OUTPUT_VARIABLE overview COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "tallybox\\\\-[a-z]+ \\(1\\)" names "${overview}")
list(TRANSFORM names REPLACE "tallybox\\\\-([a-z]+) .*" "\\1")
if(NOT names)
  message(FATAL_ERROR "`${PROGRAM} man` names no command")
endif()

file(REMOVE_RECURSE ${FOLDER}/man)
file(MAKE_DIRECTORY ${FOLDER}/man ${FOLDER}/completion)
execute_process(COMMAND ${PROGRAM} man OUTPUT_FILE ${FOLDER}/man/tallybox.1
                COMMAND_ERROR_IS_FATAL ANY)
foreach(name IN LISTS names)
  execute_process(COMMAND ${PROGRAM} man ${name} OUTPUT_FILE ${FOLDER}/man/tallybox-${name}.1
                  COMMAND_ERROR_IS_FATAL ANY)
endforeach()
file(GLOB pages ${FOLDER}/man/*.1)
# Without the time and the name of the file, so that two builds have the same bytes.
execute_process(COMMAND gzip -9 --no-name ${pages} COMMAND_ERROR_IS_FATAL ANY)

execute_process(COMMAND ${PROGRAM} completion bash OUTPUT_FILE ${FOLDER}/completion/tallybox
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PROGRAM} completion zsh OUTPUT_FILE ${FOLDER}/completion/_tallybox
                COMMAND_ERROR_IS_FATAL ANY)
file(TOUCH ${FOLDER}/manual.stamp)
