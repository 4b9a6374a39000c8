// What scrolls can be reached by the keyboard, and the button of the table of contents is one.
for (const scrolled of document.querySelectorAll("main pre > code, main .table-wrapper")) scrolled.tabIndex = 0;
const toggle = document.getElementById("mdbook-sidebar-toggle");
if (toggle) toggle.setAttribute("role", "button");
