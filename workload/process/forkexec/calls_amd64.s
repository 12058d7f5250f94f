#include "textflag.h"

#define SYS_WRITE 1
#define SYS_EXIT_GROUP 231
#define SYS_CLONE3 435

#define CALL_SIZE 104

// MAKE_CALLS makes the calls of the list at R12, R13 of them, until one fails, and touches no
// stack. It ends behind itself. The last result is kept for a call that is chained to it, and is
// refused when it is farther above the expected one than it may be.
#define MAKE_CALLS \
	XORL R15, R15; \
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
	SUBQ 64(R12), AX; \
	CMPQ AX, 72(R12); \
	JHI unexpected; \
	ADDQ $CALL_SIZE, R12; \
	DECQ R13; \
	JMP next; \
unexpected: \
	MOVQ $1, AX; \
failed: \
	NEGQ AX; \
	MOVQ AX, 80(R12); \
over:

// func makeCalls(first *call, count uintptr) (made uintptr)
TEXT ·makeCalls(SB), NOSPLIT, $0-24
	MOVQ first+0(FP), R12
	MOVQ count+8(FP), R13
	MAKE_CALLS
	MOVQ count+8(FP), AX
	SUBQ R13, AX
	MOVQ AX, made+16(FP)
	RET

// func forkAndMake(arguments *cloneArguments, size uintptr, first *call, count, report uintptr) (pid uintptr, errno syscall.Errno)
TEXT ·forkAndMake(SB), NOSPLIT, $0-56
	MOVQ arguments+0(FP), DI
	MOVQ size+8(FP), SI
	MOVQ first+16(FP), R12
	MOVQ count+24(FP), R13
	MOVQ report+32(FP), BX
	MOVQ $SYS_CLONE3, AX
	SYSCALL
	CMPQ AX, $-4095
	JCC refused
	TESTQ AX, AX
	JZ child
	MOVQ AX, pid+40(FP)
	MOVQ $0, errno+48(FP)
	RET
refused:
	NEGQ AX
	MOVQ $0, pid+40(FP)
	MOVQ AX, errno+48(FP)
	RET
child:
	MAKE_CALLS
	XORL DI, DI
	TESTQ R13, R13
	JZ exit
	MOVQ BX, DI
	MOVQ R12, SI
	MOVQ $CALL_SIZE, DX
	MOVQ $SYS_WRITE, AX
	SYSCALL
	MOVQ $127, DI
exit:
	MOVQ $SYS_EXIT_GROUP, AX
	SYSCALL
	INT $3
