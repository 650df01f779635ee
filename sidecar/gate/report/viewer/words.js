// What the page says, in English and Chinese. Words of the formats (kinds, drift, rules) stay as they are.
const WORDS = {
  en: {
    language: "中文", languageName: "Show this page in Chinese", theme: "Colours", auto: "as the system", light: "light", dark: "dark",
    findings: "Findings", timeline: "Timeline", beside: "Side by side", skip: "Skip to the content", views: "Views",
    outcome: "Outcome", profile: "Profile", exit: "Exit code", counts: "Cases", command: "Command", evaluated: "evaluated", passed: "passed", failed: "failed",
    warned: "only as warnings", skipped: "skipped", errored: "errors", flaky: "flaky", status: "Status", what: "Case", of: "Of", why: "Why", where: "Event",
    agent: "Agent", noAgent: "no agent", tapes: "Tapes", tape: "Tape", role: "Role", state: "State", events: "Events", fidelity: "Fidelity", digest: "Exact digest", conduct: "Behaviour digest",
    first: "First divergence", notes: "Notes", facts: "Facts", drift: "Drift", all: "all", search: "Search", searchHint: "name, text, #seq", kind: "Kind",
    shown: "{0} of {1} events shown", rowsShown: "{0} of {1} rows shown", list: "Events", rows: "Rows of both tapes", detail: "Event", pick: "Choose an event to see what went in and came out.",
    seam: "Seam", site: "Site", error: "Error", start: "Started", took: "Took", cause: "Comes after", effects: "Followed by", use: "Usage", attr: "Attributes",
    input: "Input", output: "Output", chunks: "Pieces of the stream", notKept: "not kept: {0}", cut: "{0} more characters are not in this file", more: "Show all ({0} characters)",
    leftOut: "{0} events are not in this file: the tape has more than it holds", rowsLeftOut: "{0} rows are not in this file", moreChunks: "{0} more pieces are not in this file",
    unreadable: "This tape could not be read: {0}", faults: "What does not hold", jump: "Go to event {0}", left: "Left", right: "Right", pointer: "Place", changes: "changes only", next: "Next difference", previous: "Previous difference",
    toFirst: "First divergence", consequence: "consequence", same: "no difference in what was kept", nothing: "nothing", onlySide: "not on this side", keys: "Keys", clear: "Clear filters", none: "Nothing to show.",
    steps: "Events around it", attempts: "Attempts", signature: "Signature", quarantined: "quarantined until {0} ({1})", warning: "warning", evidence: "Rests on", help: "Keyboard",
    k1: "between the tabs, in lists", k2: "to what is chosen, and back to the list", k3: "search", k4: "next or previous difference", k5: "a page, the first, the last",
    pass: "pass", fail: "fail", skip_: "skip", error_: "error", lanes: "Events by agent", printed: "The first {0} of {1} events", differs: "Where they differ", moreDiffers: "and more places",
  },
  zh: {
    language: "English", languageName: "以英文显示本页", theme: "配色", auto: "跟随系统", light: "浅色", dark: "深色",
    findings: "结论", timeline: "时间线", beside: "并排对比", skip: "跳到正文", views: "视图",
    outcome: "结果", profile: "配置", exit: "退出码", counts: "检查项", command: "命令", evaluated: "项已评估", passed: "通过", failed: "失败",
    warned: "仅为警告", skipped: "跳过", errored: "出错", flaky: "不稳定", status: "状态", what: "检查项", of: "所属", why: "原因", where: "事件",
    agent: "智能体", noAgent: "无智能体", tapes: "磁带", tape: "磁带", role: "角色", state: "状态", events: "事件", fidelity: "保真度", digest: "精确摘要", conduct: "行为摘要",
    first: "首个分歧", notes: "备注", facts: "事实", drift: "漂移", all: "全部", search: "搜索", searchHint: "名称、文本、#序号", kind: "类型",
    shown: "显示 {1} 个事件中的 {0} 个", rowsShown: "显示 {1} 行中的 {0} 行", list: "事件", rows: "两盘磁带的行", detail: "事件", pick: "选择一个事件以查看其输入与输出。",
    seam: "接缝", site: "位置", error: "错误", start: "开始于", took: "耗时", cause: "发生在其后", effects: "随后", use: "用量", attr: "属性",
    input: "输入", output: "输出", chunks: "流的片段", notKept: "未保留：{0}", cut: "另有 {0} 个字符不在本文件中", more: "显示全部（{0} 个字符）",
    leftOut: "另有 {0} 个事件不在本文件中：磁带超出本文件的容量", rowsLeftOut: "另有 {0} 行不在本文件中", moreChunks: "另有 {0} 个片段不在本文件中",
    unreadable: "无法读取此磁带：{0}", faults: "不成立之处", jump: "前往事件 {0}", left: "左", right: "右", pointer: "位置", changes: "仅差异", next: "下一处差异", previous: "上一处差异",
    toFirst: "首个分歧", consequence: "后果", same: "保留的内容没有差异", nothing: "无", onlySide: "此侧没有", keys: "按键", clear: "清除筛选", none: "没有可显示的内容。",
    steps: "前后事件", attempts: "尝试", signature: "特征", quarantined: "隔离至 {0}（{1}）", warning: "警告", evidence: "依据", help: "键盘操作",
    k1: "在标签之间及列表中移动", k2: "进入所选内容，返回列表", k3: "搜索", k4: "下一处或上一处差异", k5: "翻页、首项、末项",
    pass: "通过", fail: "失败", skip_: "跳过", error_: "出错", lanes: "按智能体排列的事件", printed: "{1} 个事件中的前 {0} 个", differs: "差异所在", moreDiffers: "以及更多位置",
  },
};
let language = "en";

function t(key, ...values) {
  return WORDS[language][key].replace(/\{(\d)\}/g, (_, place) => String(values[Number(place)]));
}
