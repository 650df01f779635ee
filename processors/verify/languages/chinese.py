"""Chinese: the words by which an answer says that something was done, or was not.

Rules
1. There are no spaces: a clause is read from the left, the longest word of the table first, so
   that 为了 is not 了 and 会议 is not 会. Simplified and traditional characters are listed both.
2. A verb and its noun are one word (退款); 已, 成功 and 了 say that it is over, 未 and 没有 that it
   is not.
"""

import re
import unicodedata

import re2

from processors.verify.languages.lexicon import Language, Sense, markers, together

_ACTS = """
refund | 退款 退还 退回 返还 退費 退還 退费
cancel | 取消 撤销 撤銷 注销
book | 预订 预定 订购 預訂 预约成功
send | 发送 寄出 发出 寄送 發送 發出 寄给
email | 邮件 电子邮件 郵件 電子郵件 邮箱
delete | 删除 移除 刪除
create | 创建 新建 建立 生成 創建
update | 更新 修改 更改 变更 更換 改签 變更 调整
transfer | 转账 汇款 转移 轉帳 轉賬
pay | 支付 付款 缴费
charge | 扣款 收费 扣费
deploy | 部署 上线 發佈
approve | 批准 审批通过 核准
schedule | 安排 预约 排期
close | 关闭
assign | 分配 指派
block | 冻结 封禁 锁定
upload | 上传
notify | 通知 告知
issue | 发起 发放 下发 开具 發放
process | 处理 办理 處理 辦理
complete | 完成
execute | 执行 进行 操作
"""
_NOUNS = """
order | 订单 訂單
reservation booking | 预订单 预订记录 机票
invoice | 发票 账单
payment | 款项 金额
file | 文件
ticket | 工单
account | 账户 帐户 账号
address | 地址
flight | 航班
meeting appointment | 会议 會議
subscription | 订阅
service | 服务
customer user | 客户 用户
request | 请求 申请 請求
it | 它 这 全部 一切
"""
_MARKERS = """
aux | 已 已经 已成功 成功 了 完毕 已經 已为 好了 过了
could | 得以
can | 能 能够 可以
will | 将 会 将会 即将 打算 准备 要 需要 请 如需 应 希望 想 想要 將 會 将于 待 以便 便于 之后会
not aux | 未 没有 尚未 没 并未 从未 还没 还没有 還沒 沒有 仍未 并没有 未曾
not can | 无法 未能 不能 没能 没法 不可以 無法 没办法 未能够 无法为 不可
fail | 失败 未成功 不成功 没有成功 被拒绝 被拒 拒绝 出错 未通过 被驳回 失敗 出現錯誤
fail | 出现错误 发生错误 异常
aside | 正在 处理中 进行中 等待 待处理 审核中 您已 您已经 你已 你已经 昨天 之前 原先 此前
unsure | 可能 也许 大概 应该 似乎 好像 不确定 我认为 我觉得 恐怕 是否 估计 不清楚
if | 如果 若 假如 一旦 倘若 要是 如 当
said | 您说 你说 客户说 用户说 您提到 你提到 您表示 据您
again | 再次 另一 第二次 重复
nothing | 为了 了解 除了 例如 如下 会员 社会 机会 将军 能源 功能 不可避免 要求 重要 主要
nothing | 应用 必要 请问 如有 已知 不仅 未来 当前 当地 当日 无需 不需要 不会
"""


def _acts() -> dict[str, tuple[Sense, ...]]:
    found: dict[str, tuple[Sense, ...]] = {}
    for table, kind in ((_ACTS, "past"), (_NOUNS, "noun")):
        for line in table.strip().splitlines():
            english, _, words = line.partition("|")
            for word in words.split():
                found[word] = (Sense(kind, tuple(english.split())),)  # type: ignore[arg-type]
    return found


_SENSES = together(_acts(), markers(_MARKERS))
_WORD = re2.compile("|".join(re.escape(word) for word in sorted(_SENSES, key=len, reverse=True)))


def _words(clause: str) -> list[tuple[Sense, ...]]:
    return [_SENSES[word] for word in _WORD.findall(clause)]


def _plain(sentence: str) -> str:
    return unicodedata.normalize("NFKC", sentence).lower()


CHINESE = Language(
    code="zh",
    cut=re.compile(
        r"\s*(?:[;,、:。](?!\d)|但是|但|不过|然而|因为|由于|(?P<weak>并且|并|以及|且))\s*"
    ),
    words=_words,
    usual=frozenset(),
    plain=_plain,
    translations={},
)
