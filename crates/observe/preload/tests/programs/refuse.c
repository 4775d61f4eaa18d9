/*
 * refuse NUMBER,ERRNO[,ARGUMENT,VALUE,MASK] ... -- PROGRAM ARGUMENTS
 *
 * Runs a program as on an older kernel: its system calls of these numbers, or those of them whose
 * argument has this value behind the mask, fail with this error. The filter is installed by the
 * instruction, so that no library notices.
 */
#include "check.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { RULES = 64, INSTRUCTIONS = 6 };

static struct sock_filter filter[RULES * INSTRUCTIONS + 1];

static unsigned short add_rule(unsigned short at, const char *text) {
    unsigned number, error, argument = 0, value = 0, mask = 0;
    int fields = sscanf(text, "%u,%u,%u,%u,%u", &number, &error, &argument, &value, &mask);
    MUST((fields == 2 || fields == 5) && argument < 6);
    struct sock_filter rule[INSTRUCTIONS] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[argument])),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
    };
    memcpy(filter + at, rule, sizeof rule);
    return at + INSTRUCTIONS;
}

static long raw(long number, long first, long second, long third) {
    register long fourth __asm__("r10") = 0, fifth __asm__("r8") = 0;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(third), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return result;
}

int main(int count, char **words) {
    unsigned short length = 0;
    int at = 1;
    for (; at < count && strcmp(words[at], "--") != 0; at++) {
        MUST(at <= RULES);
        length = add_rule(length, words[at]);
    }
    MUST(at + 1 < count);
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = length, .filter = filter};
    MUST(raw(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0) == 0);
    MUST(raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program) == 0);
    execvp(words[at + 1], words + at + 1);
    MUST(!"the program is there");
}
