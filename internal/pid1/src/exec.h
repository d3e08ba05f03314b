/* exec.h: execve with the search in PATH. */
#ifndef JAILER_EXEC_H
#define JAILER_EXEC_H

#include <stdint.h>

/* exec_search executes argv[0], looked for in the PATH of envp if it holds no
 * slash. It returns only on failure: a negative errno, and DETAIL_INTERPRETER in
 * *detail if the file is there and its interpreter is not. */
long exec_search(char **argv, char **envp, uint32_t *detail);

#endif
