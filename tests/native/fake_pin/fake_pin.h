/* SPDX-License-Identifier: Apache-2.0 */
/* What a made-up program does under the stand-in. */
#ifndef FAKE_PIN_H
#define FAKE_PIN_H

#include <functional>
#include <thread>

#include "pin.H"

/* The program: PIN_StartProgram calls it on the first thread, with the words after "--". */
void program(const std::vector<std::string> &words);

Loaded *load(const std::string &path, ADDRINT low, const std::vector<std::string> &routines = {},
             bool main = false);
void unload(Loaded *image);
void execute(const std::vector<Block> &trace);
void call(Loaded *image, const char *routine, ADDRINT argument = 0);

enum Start { AS_IT_COMES, BEFORE_THE_CALL_RETURNS, LATE };
/* A thread of the program. A LATE one starts when let_go() is called. */
std::thread create(std::function<void()> body, Start start = AS_IT_COMES);
void let_go();
bool creation_fails(); /* clone returns an error; true: the tool was told */
OS_THREAD_ID this_thread();

/* Forks; the child runs `body` and ends. Returns its exit status, or -1 if it hung. */
int fork_program(std::function<void()> body);

#endif
