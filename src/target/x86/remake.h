/* remake.h - an innermost loop that holds more than the file: registers place by place. */
#ifndef KN_X86_REMAKE_H
#define KN_X86_REMAKE_H

#include "target/x86/plan.h"

typedef struct kx_crowd { /* one bank of an innermost loop */
    int           loop, bank;
    const kn_ref *ref; /* values it reads or makes: first those from outside, then its own, by start */
    int           nouter, nref;
    uint32_t      pool, always;    /* registers for them; for what is set while the loop opens as well */
    uint32_t      rather, openers; /* the better ones; read while the loop opens: not for what is set then */
    uint8_t      *mark;            /* per value: KX_SEEN, KX_WRITTEN in the loop */
    uint32_t      beside;          /* registers of the bank beside that may be given out */
    bool          tidy;            /* what is made again takes no register of sequences */
} kx_crowd;

enum { KX_SEEN = 1, KX_WRITTEN = 2 };

/* Takes intervals, and what the whole list's scan gave. *done: moves of this loop say where every value is, and each is
 * in a register where it is read; else nothing has changed. */
bool kx_share_crowded(kx_plan *p, const kx_crowd *c, bool *done);
/* The register of a value while an innermost loop runs, -1: the frame, or for a part of the time. */
int kx_reg_within(const kx_plan *p, kn_ref value, int loop);

#endif
