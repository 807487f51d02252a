#include "cli/line_reader.h"

#include "base/file.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

enum { HISTORY_MAX = 1000 };

struct line_reader {
    bool is_interactive;
    const char *prompt;
    char *plain; /* of getline */
    size_t plain_size;
    /* Only on a terminal. */
    EditLine *editor;
    History *history;
    char *history_path; /* NULL: nothing is kept */
    bool was_cleared;
};

/* ---- the history file ---- */

/* The directory is made when it is not there; what people type may be secret. */
static char *find_history(const char *name)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *directory = NULL, *path = NULL;
    int length = -1;
    if (state && state[0] == '/')
        length = asprintf(&directory, "%s/cloche", state);
    else if (home && home[0] == '/')
        length = asprintf(&directory, "%s/.local/state/cloche", home);
    if (length < 0)
        return NULL;
    if (file_make_directories(directory, 0700) < 0 || asprintf(&path, "%s/%s", directory, name) < 0)
        path = NULL;
    free(directory);
    return path;
}

/* A file of our own that nobody else can read, at its end. */
static FILE *open_history(const char *path, int flags)
{
    struct stat status;
    scope_fd fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0600);
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
        fchmod(fd, 0600) < 0)
        return NULL;
    FILE *file = fdopen(fd, "a");
    if (!file)
        return NULL;
    take_fd(&fd);
    fseek(file, 0,
          SEEK_END); /* libedit begins an empty file with its mark, and looks at the place for that */
    return file;
}

static void save_history(History *list, const char *path, int flags)
{
    HistEvent event;
    scope_file *file = open_history(path, flags);
    if (file)
        history(list, &event, H_SAVE_FP, file);
}

static void load_history(struct line_reader *reader)
{
    HistEvent event;
    struct stat status;
    if (!reader->history_path || lstat(reader->history_path, &status) < 0 || !S_ISREG(status.st_mode))
        return;
    int count = history(reader->history, &event, H_LOAD, reader->history_path);
    if (count < 2 * HISTORY_MAX)
        return;
    char *shorter = NULL; /* it only ever grows otherwise */
    if (asprintf(&shorter, "%s.new", reader->history_path) < 0)
        return;
    save_history(reader->history, shorter, O_TRUNC);
    rename(shorter, reader->history_path);
    free(shorter);
}

void line_reader_remember(struct line_reader *reader, const char *text)
{
    HistEvent event;
    if (!reader->history || !text[strspn(text, " \t\n")])
        return;
    history(reader->history, &event, H_ENTER, text);
    /* Added at once and alone: sessions side by side keep each other's lines, and none is lost at a sudden
     * end. */
    History *only = reader->history_path ? history_init() : NULL;
    if (!only)
        return;
    history(only, &event, H_SETSIZE, 1);
    history(only, &event, H_ENTER, text);
    save_history(only, reader->history_path, O_APPEND);
    history_end(only);
}

/* ---- the editor ---- */

static char *prompt_of(EditLine *editor)
{
    struct line_reader *reader = NULL;
    el_get(editor, EL_CLIENTDATA, &reader);
    return (char *)(uintptr_t)reader->prompt;
}

/* Ctrl-C: the line ends where it is, as if Enter had been pressed, and is not taken. */
static unsigned char clear_line(EditLine *editor, wint_t key)
{
    (void)key;
    struct line_reader *reader = NULL;
    el_get(editor, EL_CLIENTDATA, &reader);
    const LineInfo *line = el_line(editor);
    reader->was_cleared = true;
    el_cursor(editor, (int)(line->lastchar - line->cursor));
    el_insertstr(editor, "^C");
    el_push(editor, "\n");
    return CC_REFRESH;
}

/* Ctrl-Z: the editor's handler of the signal puts the terminal in order, and draws the line again later. */
static unsigned char suspend(EditLine *editor, wint_t key)
{
    (void)editor, (void)key;
    raise(SIGTSTP);
    return CC_REDISPLAY;
}

/* Ctrl-C and Ctrl-Z are keys while a line is edited, as a signal could not end it; in between they are
 * signals. */
static void bind_keys(EditLine *editor)
{
    el_set(editor, EL_SETTY, "-d", "-isig", NULL);
    /* Wide, as the narrow call makes copies that nobody frees. */
    el_wset(editor, EL_ADDFN, L"cloche-clear", L"clear the line", clear_line);
    el_set(editor, EL_BIND, "^C", "cloche-clear", NULL);
    el_wset(editor, EL_ADDFN, L"cloche-suspend", L"suspend the session", suspend);
    el_set(editor, EL_BIND, "^Z", "cloche-suspend", NULL);
    el_set(editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(editor, EL_BIND, "\t", "ed-insert", NULL);
}

static void open_editor(struct line_reader *reader, const char *history_name)
{
    HistEvent event;
    setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) /* no locale is set: better UTF-8 than letters of one byte */
        setlocale(LC_CTYPE, "C.UTF-8");
    reader->editor = el_init("cloche", stdin, stdout, stderr);
    if (!reader->editor)
        return;
    el_set(reader->editor, EL_CLIENTDATA, reader);
    el_set(reader->editor, EL_PROMPT, prompt_of);
    el_set(reader->editor, EL_EDITOR, "emacs");
    el_set(reader->editor, EL_SIGNAL, 1); /* a terminal that is resized or left is put in order */
    el_source(reader->editor, NULL);
    bind_keys(reader->editor);
    reader->history = history_init();
    if (!reader->history)
        return;
    history(reader->history, &event, H_SETSIZE, HISTORY_MAX);
    history(reader->history, &event, H_SETUNIQUE, 1);
    el_set(reader->editor, EL_HIST, history, reader->history);
    reader->history_path = find_history(history_name);
    load_history(reader);
}

struct line_reader *line_reader_open(const char *history_name)
{
    struct line_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return NULL;
    reader->is_interactive = isatty(STDIN_FILENO) == 1;
    if (reader->is_interactive && isatty(STDOUT_FILENO) == 1)
        open_editor(reader, history_name);
    return reader;
}

bool line_reader_is_interactive(const struct line_reader *reader)
{
    return reader->is_interactive;
}

/* ---- reading ---- */

static const char *read_plain(struct line_reader *reader, ssize_t *ret_length)
{
    if (reader->is_interactive) {
        fputs(reader->prompt, stdout);
        fflush(stdout);
    }
    *ret_length = getline(&reader->plain, &reader->plain_size, stdin);
    return *ret_length < 0 ? NULL : reader->plain;
}

static const char *read_edited(struct line_reader *reader, ssize_t *ret_length)
{
    int length = 0;
    /* Before the prompt is shown: a key that comes right behind it is already one. */
    el_set(reader->editor, EL_PREP_TERM, 1);
    const char *line = el_gets(reader->editor, &length);
    *ret_length = length;
    return line;
}

enum line_kind line_reader_read(struct line_reader *reader, const char *prompt, struct buffer *ret)
{
    ssize_t length = 0;
    reader->prompt = prompt;
    reader->was_cleared = false;
    buffer_free(ret);
    const char *line = reader->editor ? read_edited(reader, &length) : read_plain(reader, &length);
    if (!line || length <= 0)
        return LINE_END;
    if (reader->was_cleared)
        return LINE_CLEARED;
    if (line[length - 1] == '\n')
        length--;
    return buffer_append(ret, line, (size_t)length) < 0 ? LINE_END : LINE_READ;
}

void line_reader_close(struct line_reader *reader)
{
    if (!reader)
        return;
    if (reader->editor)
        el_end(reader->editor);
    if (reader->history)
        history_end(reader->history);
    free(reader->history_path);
    free(reader->plain);
    free(reader);
}
