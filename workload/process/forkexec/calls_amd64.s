#include "textflag.h"

#define SYS_EXIT_GROUP 231
#define SYS_CLONE3 435

// MAKE_CALLS makes the calls of the list at R12, R13 of them, until one fails, and touches no
// stack. It ends behind itself. The last result is kept for a call that is chained to it, and is
// refused when it is above the most that is allowed.
#define MAKE_CALLS \
	XORL R9, R9; \
	MOVQ R9, R15; \
next: \
	TESTQ R13, R13; \
	JZ over; \
	MOVQ 0(R12), AX; \
	MOVQ 8(R12), DI; \
	MOVQ 16(R12), SI; \
	MOVQ 24(R12), DX; \
	MOVQ 32(R12), R10; \
	MOVQ 40(R12), R8; \
	MOVQ 48(R12), R9; \
	CMPQ 56(R12), $0; \
	CMOVQNE R15, DI; \
	SYSCALL; \
	CMPQ AX, $-4095; \
	JCC failed; \
	MOVQ AX, R15; \
	CMPQ AX, 64(R12); \
	JHI exceeded; \
	ADDQ $80, R12; \
	DECQ R13; \
	JMP next; \
exceeded: \
	MOVQ $1, AX; \
failed: \
	NEGQ AX; \
	MOVQ AX, 72(R12); \
over:

// func makeCalls(first *call, count uintptr)
TEXT ·makeCalls(SB), NOSPLIT, $0-16
	MOVQ first+0(FP), R12
	MOVQ count+8(FP), R13
	MAKE_CALLS
	RET

// The runtime is told that the thread waits, as by the system calls of Go: others go on.
//
// func cloneAndMake(arguments *cloneArguments, size uintptr, first *call, count uintptr) (pid uintptr, errno syscall.Errno)
TEXT ·cloneAndMake(SB), NOSPLIT, $0-48
	CALL runtime·entersyscall(SB)
	MOVQ arguments+0(FP), DI
	MOVQ size+8(FP), SI
	MOVQ first+16(FP), R12
	MOVQ count+24(FP), R13
	MOVQ $SYS_CLONE3, AX
	SYSCALL
	CMPQ AX, $-4095
	JCC refused
	TESTQ AX, AX
	JZ child
	MOVQ AX, pid+32(FP)
	MOVQ $0, errno+40(FP)
	CALL runtime·exitsyscall(SB)
	RET
refused:
	NEGQ AX
	MOVQ $0, pid+32(FP)
	MOVQ AX, errno+40(FP)
	CALL runtime·exitsyscall(SB)
	RET
child:
	MAKE_CALLS
	MOVQ R13, DI // 0: all were made
	MOVQ $SYS_EXIT_GROUP, AX
	SYSCALL
	INT $3
