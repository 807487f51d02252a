#include "engine/notify.h"

#include "os/seccomp/filter.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

bool notify_receive(int listener_fd, struct seccomp_notif *ret)
{
    memset(ret, 0, sizeof *ret); /* the kernel refuses a struct that is not zero */
    return ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_RECV, ret) == 0;
}

bool notify_is_alive(int listener_fd, uint64_t id)
{
    return ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static void notify_send(struct box *box, struct seccomp_notif_resp *response)
{
    int sent;
    do
        sent = ioctl(box->listener_fd, SECCOMP_IOCTL_NOTIF_SEND, response);
    while (sent < 0 && errno == EINTR);
    /* The caller may be dead by now: nobody waits then. Any other failure leaves it waiting for ever. */
    if (sent < 0 && errno != ENOENT)
        box->answer_error = errno;
}

void notify_answer(struct box *box, uint64_t id, int error_number)
{
    struct seccomp_notif_resp response = {.id = id, .error = -error_number};
    notify_send(box, &response);
}

void notify_continue(struct box *box, uint64_t id)
{
    struct seccomp_notif_resp response = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    notify_send(box, &response);
}

bool notify_end_box(struct box *box, const char **ret_call)
{
    struct seccomp_notif notification;
    if (!notify_receive(box->listener_fd, &notification))
        return false;
    *ret_call = seccomp_call_name(notification.data.nr);
    return true; /* not answered: the call waits until the box is gone */
}
