/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAULTS_H
#define FAULTS_H

/* Counts a call of ours. An error number if it is to fail; negative: transfer one byte; else 0. */
int faults_next(const char *name);
/* In the launcher: from now on, calls that touch the folder `below` count. */
void faults_arm(int at, int error, const char *below);
/* Writes the names of the calls so far to a file. */
void faults_report(const char *path);

#endif
