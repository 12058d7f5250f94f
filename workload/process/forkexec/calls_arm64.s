#include "textflag.h"

#define SYS_EXIT_GROUP 94
#define SYS_CLONE3 435

// MAKE_CALLS makes the calls of the list at R9, R10 of them, until one fails, and touches no
// stack. It ends behind itself. The last result is kept for a call that is chained to it, and is
// refused when it is above the most that is allowed.
#define MAKE_CALLS \
	MOVD ZR, R11; \
next: \
	CBZ R10, over; \
	MOVD 0(R9), R8; \
	MOVD 8(R9), R0; \
	MOVD 16(R9), R1; \
	MOVD 24(R9), R2; \
	MOVD 32(R9), R3; \
	MOVD 40(R9), R4; \
	MOVD 48(R9), R5; \
	MOVD 56(R9), R12; \
	CMP $0, R12; \
	CSEL NE, R11, R0, R0; \
	SVC; \
	CMN $4095, R0; \
	BCS failed; \
	MOVD R0, R11; \
	MOVD 64(R9), R12; \
	CMP R12, R0; \
	BHI exceeded; \
	ADD $80, R9; \
	SUB $1, R10; \
	B next; \
exceeded: \
	MOVD $1, R0; \
failed: \
	NEG R0, R0; \
	MOVD R0, 72(R9); \
over:

// func makeCalls(first *call, count uintptr)
TEXT ·makeCalls(SB), NOSPLIT, $0-16
	MOVD first+0(FP), R9
	MOVD count+8(FP), R10
	MAKE_CALLS
	RET

// The runtime is told that the thread waits, as by the system calls of Go: others go on.
//
// func cloneAndMake(arguments *cloneArguments, size uintptr, first *call, count uintptr) (pid uintptr, errno syscall.Errno)
TEXT ·cloneAndMake(SB), NOSPLIT, $0-48
	CALL runtime·entersyscall(SB)
	MOVD arguments+0(FP), R0
	MOVD size+8(FP), R1
	MOVD first+16(FP), R9
	MOVD count+24(FP), R10
	MOVD $SYS_CLONE3, R8
	SVC
	CMN $4095, R0
	BCS refused
	CBZ R0, child
	MOVD R0, pid+32(FP)
	MOVD ZR, errno+40(FP)
	CALL runtime·exitsyscall(SB)
	RET
refused:
	NEG R0, R0
	MOVD ZR, pid+32(FP)
	MOVD R0, errno+40(FP)
	CALL runtime·exitsyscall(SB)
	RET
child:
	MAKE_CALLS
	MOVD R10, R0 // 0: all were made
	MOVD $SYS_EXIT_GROUP, R8
	SVC
	BRK $0
